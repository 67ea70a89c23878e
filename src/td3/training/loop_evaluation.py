"""Evaluations during a run. Training waits while the episodes are played."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.config import Config
from td3.environments.task import Task
from td3.policy.evaluation import Evaluation, episode_seeds, evaluate
from td3.policy.from_agent import policy_card, policy_tensors
from td3.policy.policy import Policy

GiveUp = Callable[[], bool]
"""Whether to stop an evaluation before it is complete."""


def never() -> bool:
    return False


class Result(NamedTuple):
    """The evaluation of one agent."""

    step: int
    agent: int
    found: Evaluation
    policy: dict[str, Tensor]
    """The policy that was evaluated."""


class GaveUp(Exception):
    """The run stops before an evaluation is complete."""


def play_policy(
    card: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    seeds: list[int],
    max_steps: int,
    on_action: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Evaluate one policy on the CPU; `on_action` is called before every action."""
    policy = Policy(card, tensors)

    def act(state: NDArray[np.float32]) -> NDArray[np.float32]:
        on_action()
        return policy.act(state)

    return evaluate(act, policy.environment, seeds, max_steps)


class LoopEvaluation:
    """Evaluates one agent after the other, in this process, when the results are requested."""

    background = False

    def __init__(self, agent: TD3, config: Config, task: Task) -> None:
        self.agent, self.config = agent, config
        self.card = policy_card(agent, task, config.environment, {})
        self.seeds = [episode_seeds(s, config.evaluation.episodes) for s in config.agent_seeds]
        self.step: int | None = None
        """Training step of the evaluation in progress; None if there is none."""
        self.policies: dict[int, dict[str, Tensor]] = {}
        self.playing: dict[int, Callable[[GiveUp], Evaluation]] = {}
        """For each agent a function that waits for its episodes and returns the result."""

    def begin(self, step: int, agents: Sequence[int]) -> None:
        """Start to evaluate copies of these agents' current policies."""
        policies = policy_tensors(self.agent)
        self.step, self.policies = step, {agent: policies[agent] for agent in agents}
        self.play()

    def play(self) -> None:
        """Fill `playing`."""
        self.playing = {agent: partial(self.play_here, agent) for agent in self.policies}

    def play_here(self, agent: int, give_up: GiveUp) -> Evaluation:
        def check() -> None:
            if give_up():
                raise GaveUp

        seeds, limit = self.seeds[agent], self.config.evaluation.max_steps
        return play_policy(self.card, self.policies[agent], seeds, limit, check)

    def results(self, give_up: GiveUp = never) -> list[Result]:
        """Wait for the evaluation in progress and return its results; [] if there is none.

        If `give_up` becomes true meanwhile, return []. The evaluation is then still in progress:
        a checkpoint saves its policies, and resume plays all of it again.
        """
        if self.step is None:
            return []
        try:
            results = [
                Result(self.step, agent, playing(give_up), self.policies[agent])
                for agent, playing in sorted(self.playing.items())  # a checkpoint may reorder them
            ]
        except GaveUp:
            return []
        self.step, self.policies, self.playing = None, {}, {}
        return results

    def tensors(self) -> dict[str, Tensor]:
        """The policies that are being evaluated, for a checkpoint."""
        return {
            f"{agent}.{name}": tensor
            for agent, policy in self.policies.items()
            for name, tensor in policy.items()
        }

    def restore(self, step: int | None, tensors: dict[str, Tensor]) -> None:
        """Start the evaluation again that was in progress when the checkpoint was written."""
        self.step, self.policies = step, {}
        for key, tensor in tensors.items():
            agent, _, name = key.partition(".")
            self.policies.setdefault(int(agent), {})[name] = tensor
        if self.policies:
            self.play()

    def close(self) -> None: ...

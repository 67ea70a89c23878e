"""A trained policy: acts without the agent that was trained.

Reading a policy file runs no code, and playing it imports no module that only the file names
(`trust.py`).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.networks import Actor
from td3.algorithm.normalizer import CLIP
from td3.config import EnvironmentConfig, EvaluationConfig
from td3.environments.environment import Environment
from td3.environments.factories import Factory
from td3.environments.task import Task
from td3.errors import UserError
from td3.layout import Observation, describe_layout, flatten
from td3.policy.batches import describe_not_finite, flatten_batch
from td3.policy.evaluation import Evaluation, episode_seeds, evaluate
from td3.policy.file import action_card, read_bounds
from td3.policy.networks import build_networks, is_stock
from td3.policy.trust import task_to_play
from td3.policy.variants import build_agent


class Policy:
    """Maps an observation of the environment to an action of the environment; batches too.

    Args:
        card: How to use the tensors; see `policy_card`.
        tensors: The actor, the encoder for images, and the observation statistics.
        name: Name for error messages.
        actor_class: Class of the actor network.
        variant: Class or name of the variant, if the policy acts in its own way.

    Example:
        policy = td3.load_policy("runs/my-run")
        action = policy(observation)
    """

    def __init__(
        self,
        card: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        name: str = "policy",
        actor_class: type[Actor] = Actor,
        variant: str | type[Any] | None = None,
    ) -> None:
        self.card, self.tensors, self.name = dict(card), dict(tensors), name
        self.layout = card["observation"]
        self.bounds = read_bounds(card)
        self.agent: TD3 | None = None
        """Acts instead of the networks below, for a variant with its own way to act."""
        if "variant" in card:
            self.agent = build_agent(card, self.bounds.low.size, tensors, variant, name)
            return
        networks = build_networks(card, self.bounds.low.size, tensors, actor_class)
        self.actor, self.encoder, self.statistics = networks
        layers = self.actor.layers(self.actor.flat.detach())
        self.layers = [(weight[0].numpy(), bias[0, 0].numpy()) for weight, bias in layers]
        self.uses_numpy = is_stock(self.actor)

    def __repr__(self) -> str:
        when = "" if self.step is None else f", of step {self.step:,}"
        return f"Policy({self.environment.id}{when})"

    def __call__(self, observation: Any, *, check: bool = True) -> NDArray[Any]:
        """Return the action for one observation, or the actions for a batch of observations.

        Args:
            observation: As the environment gives it. A batch has a leading axis in every array,
                inside dictionaries and tuples too. What could be both is one observation.
            check: Whether NaN and infinity in the observation are an error.

        Returns:
            The action in the shape of the environment, with a leading axis for a batch.

        Raises:
            ValueError: The observation has another shape than expected, or is not finite.
        """
        try:
            state = flatten(self.layout, observation)
        except (KeyError, TypeError, ValueError) as error:
            state = self.flatten_batch(observation, error)
        # isfinite().all() takes three times as long.
        if check and np.count_nonzero(np.isfinite(state)) < state.size:
            raise ValueError(
                f"not a finite observation of {self.environment.id}: {describe_not_finite(state)}"
            )
        return self.bounds.scale(self.act(state))

    def flatten_batch(self, observations: Any, error: Exception) -> Observation:
        """A batch as rows; `error` is why it is not a single observation."""
        try:
            return flatten_batch(self.layout, observations)
        except (IndexError, KeyError, TypeError, ValueError):
            raise ValueError(
                f"not an observation of {self.environment.id} "
                f"(expected {describe_layout(self.layout)}): {error}"
            ) from error

    @np.errstate(over="ignore", invalid="ignore")  # the caller checks for finite actions
    def act(self, state: Observation) -> NDArray[np.float32]:
        """The action for one flat state, or for each row of a batch.

        It is within [-1, 1], and not finite if the networks overflow.
        """
        if self.agent:
            return self.act_with_agent(self.agent, state)
        x = state
        if self.statistics:
            shift, scale = self.statistics
            x = np.minimum(np.maximum((x - shift) * scale, -CLIP), CLIP)
        if self.encoder:
            x = self.encode(x)
        return self.act_with_numpy(x) if self.uses_numpy else self.act_with_torch(x)

    def act_with_numpy(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """The stock actor in NumPy: faster than PyTorch for one state, as fast for a batch.

        A second definition of `Actor.forward`; `is_stock` guards its use and a test compares them.
        """
        for weight, bias in self.layers[:-1]:
            x = np.maximum(x @ weight + bias, 0)
        weight, bias = self.layers[-1]
        action: NDArray[np.float32] = np.tanh(x @ weight + bias)
        return action

    @torch.no_grad()
    def act_with_agent(self, agent: TD3, state: Observation) -> NDArray[np.float32]:
        """The variant's own way to act."""
        rows = torch.from_numpy(state.astype(np.float32, copy=False))
        actions = agent.act(rows.view(1, -1, state.shape[-1]))
        action: NDArray[np.float32] = actions.view(*state.shape[:-1], self.bounds.low.size).numpy()
        return action

    @torch.no_grad()
    def act_with_torch(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Any other actor."""
        given = torch.from_numpy(x.astype(np.float32, copy=False)).view(1, -1, x.shape[-1])
        action: NDArray[np.float32] = (
            self.actor(given).view(*x.shape[:-1], self.bounds.low.size).numpy()
        )
        return action

    @torch.no_grad()
    def encode(self, state: Observation) -> NDArray[np.float32]:
        """The features of one state with images, or of each row of a batch."""
        assert self.encoder is not None
        given = torch.from_numpy(state).view(1, -1, state.shape[-1])
        seen = self.encoder(given).view(*state.shape[:-1], self.encoder.outputs)
        features: NDArray[np.float32] = seen.numpy()
        return features

    def evaluate(
        self,
        episodes: int = 10,
        seed: int = 1_000_000,
        tick: Callable[[], None] = lambda: None,
        environment: str | Factory = "",
        max_steps: int | None = None,
    ) -> Evaluation:
        """Play noise-free episodes of its task, as `td3 evaluate` does.

        Args:
            episodes: Number of episodes.
            seed: Seed of the episodes.
            tick: Called after each episode.
            environment: Id, class or function of the task to play instead of the one in the policy
                file. A task `module:Env-v0` or `module:name` needs it, because it imports
                `module`.
            max_steps: Longest episode. Default: as in the evaluations of training.

        Returns:
            The returns and lengths, with mean, standard deviation and 95 % interval.

        Raises:
            UserError: The task does not fit the policy, or it would import a module that only the
                policy file names.
        """
        config = self.task_to_play(environment)
        tried = Environment(config)
        tried.close()
        self.check_fits(tried.task)
        seeds = episode_seeds(seed, episodes)
        return evaluate(self.act, config, seeds, max_steps or self.max_steps, tick)

    def task_to_play(
        self,
        environment: str | Factory = "",
        command: str = 'policy.evaluate(environment="{task}")',
    ) -> EnvironmentConfig:
        """Return the task in the card, or `environment` with the card's other settings.

        Raises UserError, with `command` as advice, if only the card names a module to import.
        """
        return task_to_play(self.name, self.environment, environment, command)

    def check_fits(self, task: Task) -> None:
        """Refuse a task that changed since the policy was trained."""
        if task.layout != self.layout:
            now, then = describe_layout(task.layout), describe_layout(self.layout)
            if now == then:
                then += " with other bounds, keys or order"
            raise UserError(f"{task.id} now observes {now}, but {self.name} was trained on {then}.")
        own, found = self.card["action"], action_card(task.bounds)
        if found != own:
            changed = [key for key in own if found[key] != own[key]]
            raise UserError(
                f"The actions of {task.id} are no longer those that {self.name} was trained on: "
                f"{', '.join(f'{key} {found[key]}, not {own[key]}' for key in changed)}."
            )

    @property
    def step(self) -> int | None:
        """The training step of this policy; None if the card does not contain it."""
        step = self.card.get("step")
        return step if isinstance(step, int) else None

    @property
    def mean_return(self) -> float:
        """The mean return of its evaluation in training; -inf if the card does not contain it."""
        mean = self.card.get("mean_return")
        return float(mean) if isinstance(mean, int | float) else -np.inf

    @property
    def max_steps(self) -> int:
        """The longest episode in an evaluation."""
        return int(self.card.get("max_steps") or EvaluationConfig.max_steps)

    @property
    def environment(self) -> EnvironmentConfig:
        """The task that it was trained for."""
        return EnvironmentConfig(**self.card["environment"])

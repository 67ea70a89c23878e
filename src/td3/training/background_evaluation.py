"""Evaluations during a run: in the loop, or in other processes while training goes on.

On a GPU the second: ten agents with ten episodes each take more simulator steps every 5,000 steps
than training does. The policies are copied when an evaluation is due; what it found is taken in
when the next one is due, so that the records stand in the same order however long it took.
"""

import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.config import Config
from td3.environments.task import Task
from td3.environments.workers.messages import read, receive
from td3.environments.workers.processes import (
    Link,
    RemoteTraceback,
    portable_spec,
    start_process,
    stop_all,
)
from td3.errors import UserError
from td3.machine import usable_cores
from td3.policy.evaluation import Evaluation, episode_seeds
from td3.policy.policy import policy_card, policy_tensors
from td3.training.evaluator import play

# NumPy reads this when it is imported; with wide layers it would take all cores.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Result(NamedTuple):
    """What one agent's episodes came to."""

    step: int
    agent: int
    found: Evaluation
    policy: dict[str, Tensor]
    """The policy that played them."""


class InLoop:
    """Training waits while the episodes are played."""

    background = False

    def __init__(self, agent: TD3, config: Config, task: Task) -> None:
        self.agent, self.config = agent, config
        self.card = policy_card(agent, task, config.environment, {})
        self.seeds = [episode_seeds(s, config.evaluation.episodes) for s in config.agent_seeds]
        self.step: int | None = None
        """When the evaluation under way began, if there is one."""
        self.policies: dict[int, dict[str, Tensor]] = {}
        self.playing: dict[int, Callable[[], Evaluation]] = {}
        """Gives what an agent's episodes came to, once they are over."""

    def begin(self, step: int, agents: Sequence[int]) -> None:
        """Evaluate these agents as they are now."""
        everyone = policy_tensors(self.agent)
        self.step, self.policies = step, {agent: everyone[agent] for agent in agents}
        self.play()

    def play(self) -> None:
        """One agent after the other, when its result is asked for."""
        limit = self.config.evaluation.max_steps
        self.playing = {
            agent: partial(play, self.card, policy, self.seeds[agent], limit)
            for agent, policy in self.policies.items()
        }

    def results(self) -> list[Result]:
        """What the evaluation under way has found, waiting for it; nothing if there is none."""
        if self.step is None:
            return []
        results = [
            Result(self.step, agent, playing(), self.policies[agent])
            for agent, playing in sorted(self.playing.items())  # a file has an order of its own
        ]
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
        """Begin again what was under way."""
        self.step, self.policies = step, {}
        for key, tensor in tensors.items():
            agent, _, name = key.partition(".")
            self.policies.setdefault(int(agent), {})[name] = tensor
        if self.policies:
            self.play()

    def close(self) -> None: ...


class Background(InLoop):
    """Other processes play the episodes; results do not depend on which, or when."""

    background = True

    def __init__(self, agent: TD3, config: Config, task: Task, processes: int) -> None:
        super().__init__(agent, config, task)
        self.spec = portable_spec(config.environment.id)
        self.processes, self.patience = processes, config.environment.patience or math.inf
        self.ring_every = min(1.0, self.patience)
        """Seconds after which an evaluator that is at work says so, between two steps."""
        self.links: list[Link] = []
        self.idle: SimpleQueue[Link] = SimpleQueue()
        self.threads = ThreadPoolExecutor(processes)
        """They wait for the processes, so that nobody else has to."""

    def play(self) -> None:
        if not self.links:  # not before: who only measures speed needs none
            self.start()
        self.playing = {
            agent: self.threads.submit(self.play_elsewhere, agent, policy).result
            for agent, policy in sorted(self.policies.items())  # the first failure is told first
        }

    def start(self) -> None:
        facts = {
            "card": self.card,
            "spec": self.spec,
            "max_steps": self.config.evaluation.max_steps,
            "ring_every": self.ring_every,
        }
        for number in range(self.processes):
            link = start_process("td3.training.evaluator", f"Evaluator {number}", **ONE_THREAD)
            self.links.append(link)
            self.idle.put(link)
            with suppress(ConnectionError):  # dead, as who asks it to play will find
                link.connection.send_bytes(json.dumps(facts).encode())

    def play_elsewhere(self, agent: int, policy: dict[str, Tensor]) -> Evaluation:
        link = self.idle.get()
        try:
            link.connection.send_bytes(json.dumps(self.seeds[agent]).encode())
            link.connection.send_bytes(
                save({k: tensor.contiguous() for k, tensor in policy.items()})
            )
            read(link.connection)  # the first action, however long it took to start
            answer = json.loads(receive(link.connection, self.patience + self.ring_every))
        except (EOFError, ConnectionError):
            raise link.exit_error() from None
        except TimeoutError:
            raise link.timeout_error(self.patience) from None
        finally:
            self.idle.put(link)
        if facts := answer.get("failure"):
            raise link.remote_error(facts) from RemoteTraceback(facts["traceback"])
        return Evaluation(np.array(answer["returns"]), np.array(answer["lengths"]))

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)
        for link in self.links:
            link.process.kill()  # it may be in the middle of an episode, and has nothing to lose
        self.threads.shutdown()
        stop_all(self.links)


def in_background(device: torch.device) -> bool:
    """Whether evaluations are to be played in other processes."""
    return device.type == "cuda"


def make_evaluations(agent: TD3, config: Config, task: Task, workers: int) -> InLoop:
    """In as many processes as there are cores that learner and workers leave, or in the loop."""
    processes = max(1, min(agent.agents, usable_cores() - workers - 1))
    if in_background(agent.device):
        with suppress(UserError):  # a task that only this process can make
            return Background(agent, config, task, processes)
    return InLoop(agent, config, task)

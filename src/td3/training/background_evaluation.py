"""Evaluations in other processes while training continues.

Used on a GPU: every 5,000 steps, ten agents with ten episodes each need more simulator steps than
training does. The policies are copied when an evaluation starts. Its results are recorded when the
next evaluation starts, so that the records have the same order however long the episodes take.
"""

import json
import math
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

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
    start_patience,
    start_process,
    stop_all,
)
from td3.errors import UserError
from td3.machine import usable_cores
from td3.policy.evaluation import Evaluation
from td3.training.loop_evaluation import GaveUp, GiveUp, LoopEvaluation

# NumPy reads these when it is imported; without them wide layers would use all cores.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


CHECK_SECONDS = 0.1  # how often a thread that waits looks for a stop request


class BackgroundEvaluation(LoopEvaluation):
    """Evaluates in other processes; the results do not depend on which process, or when."""

    background = True

    def __init__(self, agent: TD3, config: Config, task: Task, processes: int) -> None:
        super().__init__(agent, config, task)
        self.spec = portable_spec(config.environment.id)
        self.processes, self.patience = processes, config.environment.patience or math.inf
        self.ring_every = min(1.0, self.patience)
        """Seconds between two signs of life of an evaluator that is playing."""
        self.links: list[Link] = []
        self.idle: SimpleQueue[Link] = SimpleQueue()
        self.threads = ThreadPoolExecutor(processes)
        """Each thread waits for one process, so that training does not have to."""

    def play(self) -> None:
        if not self.links:  # not earlier: a benchmark never evaluates
            self.start()
        self.playing = {
            agent: partial(wait_for, self.threads.submit(self.play_elsewhere, agent, policy))
            for agent, policy in sorted(self.policies.items())  # report the first failure first
        }

    def start(self) -> None:
        facts = {
            "card": self.card,
            "spec": self.spec,
            "max_steps": self.config.evaluation.max_steps,
            "ring_every": self.ring_every,
        }
        for number in range(self.processes):
            link = start_process(
                "td3.training.evaluator", f"Evaluator {number}", self.patience, **ONE_THREAD
            )
            self.links.append(link)
            self.idle.put(link)
            with suppress(ConnectionError):  # it has ended; `play_elsewhere` reports it
                link.connection.send_bytes(json.dumps(facts).encode())

    def play_elsewhere(self, agent: int, policy: dict[str, Tensor]) -> Evaluation:
        link, waited = self.idle.get(), start_patience(self.patience)
        try:
            link.connection.send_bytes(json.dumps(self.seeds[agent]).encode())
            link.connection.send_bytes(
                save({k: tensor.contiguous() for k, tensor in policy.items()})
            )
            read(link.connection, waited)  # the first action; starting a simulator may take long
            waited = self.patience
            answer = json.loads(receive(link.connection, self.patience + self.ring_every))
        except (EOFError, ConnectionError):
            raise link.exit_error() from None
        except (TimeoutError, BlockingIOError):
            raise link.timeout_error(waited) from None
        finally:
            self.idle.put(link)
        if facts := answer.get("failure"):
            raise link.remote_error(facts) from RemoteTraceback(facts["traceback"])
        return Evaluation(**{name: np.array(values) for name, values in answer.items()})

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)
        for link in self.links:
            link.process.kill()  # in the middle of an episode; nothing is lost
        self.threads.shutdown()
        stop_all(self.links)


def wait_for(future: "Future[Evaluation]", give_up: GiveUp) -> Evaluation:
    """The result of a thread; raises GaveUp if the run stops before."""
    while not future.done():
        if give_up():
            raise GaveUp
        with suppress(TimeoutError):
            future.exception(CHECK_SECONDS)
    return future.result()


def in_background(device: torch.device) -> bool:
    """Whether to evaluate in other processes."""
    return device.type == "cuda"


def make_evaluations(agent: TD3, config: Config, task: Task, workers: int) -> LoopEvaluation:
    """In the background, with the cores that learner and workers leave free; or in the loop."""
    processes = max(1, min(agent.agents, usable_cores() - workers - 1))
    if in_background(agent.device):
        with suppress(UserError):  # other processes cannot make the task
            return BackgroundEvaluation(agent, config, task, processes)
    return LoopEvaluation(agent, config, task)

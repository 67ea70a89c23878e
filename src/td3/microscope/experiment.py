"""A process that trains agents without some tricks, and TD3 itself, in one population.

Started as `python -m td3.microscope.experiment` by `background.py`. It ends with its parent.
"""

import dataclasses
import json
import os
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from td3.algorithm.settings import UpdateSettings
from td3.api.train import train
from td3.environments.workers.processes import describe_error, serve_parent
from td3.microscope.returns import measure_returns
from td3.microscope.specimen import Specimen
from td3.microscope.tricks import DELAY, TRICKS, WithoutTricks
from td3.training.callbacks import Callback, LiveRun

NICE = 10


@dataclass(frozen=True)
class Task:
    """What the agents of an experiment learn, and for how long."""

    environment: str
    random_steps: int
    updates: int
    seeds: int
    updates_per_step: int = 1
    tau: float = 0.005
    evaluations: bool = False
    """Whether the return is measured on the way."""

    def updates_at(self, step: int) -> int:
        """Updates until an environment step; negative during the random steps."""
        return (step - self.random_steps) * self.updates_per_step


TASKS = {
    # Nearly all transitions are random ones, sampled again and again: the critics learn their
    # noise. New ones would show the actor what its actions are really worth.
    "noise": Task("td3.microscope.world:NoisyWorld", 3000, 4000, 5, 100, tau=0.02),
    "pendulum": Task("Pendulum-v1", 500, 5500, 3, evaluations=True),
}
EVERY = 500  # updates between measurements
EPISODES = 2  # to compare predicted and achieved values
RETURNS = "returns.jsonl"


class Compare(Callback):
    """Writes predicted and achieved values of each agent, every `EVERY` updates."""

    def __init__(self, file: Path, task: Task) -> None:
        self.file, self.task = file, task

    def on_step(self, run: LiveRun) -> None:
        updates = self.task.updates_at(run.step)
        if updates < 0 or updates % EVERY:
            return
        with self.file.open("a", encoding="utf-8") as file:
            for agent in range(run.config.agents):
                found = measure_returns(specimen_of(run, agent), EPISODES)
                facts: dict[str, Any] = {"step": run.step, "agent": agent}
                facts |= {
                    "predicted": float(found.predicted.mean()),
                    "achieved": float(found.achieved.mean()),
                }
                file.write(json.dumps(facts) + "\n")


def specimen_of(run: LiveRun, agent: int) -> Specimen:
    """One agent of a running training. The world of noise is without its noise."""
    member = dataclasses.replace(run.config.member(agent), device="cpu")
    if member.environment.id == TASKS["noise"].environment:
        expected = dataclasses.replace(member.environment, kwargs={"noise": 0.0})
        member = dataclasses.replace(member, environment=expected)
    return Specimen(
        folder=run.folder,
        step=run.step,
        number=agent,
        config=member,
        agent=run.agent.member(agent),
        replay=run.replay,
        settings=UpdateSettings(),
        batch_size=member.agent.batch_size,
        random=None,
    )


def train_without(folder: Path, name: str, off: list[str], updates: int, seeds: int) -> None:
    """Train `seeds` agents as TD3 and as many without these tricks, with the same seeds."""
    task, delayed = TASKS[name], "delay" not in off
    steps = task.random_steps + updates // task.updates_per_step
    settings: dict[str, Any] = {
        "environment": {"id": task.environment},
        "agent.tau": task.tau,
        "agent.policy_freq": DELAY if delayed else 1,
        "loop.steps": steps,
        "loop.random_steps": task.random_steps,
        "loop.updates_per_step": task.updates_per_step,
        "loop.replay_size": steps,
        "loop.log_every": EVERY // task.updates_per_step,
        "evaluation.every": EVERY if task.evaluations else steps,
        "evaluation.episodes": 3,
        "checkpoint.every": steps,
    }
    train(
        recipe="quick",
        run=folder / "run",
        quiet=True,
        callbacks=[Compare(folder / RETURNS, task)],
        variant={"name": WithoutTricks, **{trick: trick not in off for trick in TRICKS}},
        grid={"variant.changed": (0.0, 1.0)},
        seeds=seeds,
        execution="eager",
        threads=1,
        device="cpu",
        **settings,
    )


def serve(connection: Connection, facts: dict[str, Any]) -> None:
    """Train once; tell the parent how it ended."""
    os.nice(NICE)
    torch.set_num_threads(1)
    try:
        train_without(Path(facts.pop("folder")), **facts)
        answer: dict[str, Any] = {"finished": True}
    except Exception as error:
        answer = {"error": describe_error(error)["message"]}
    connection.send_bytes(json.dumps(answer).encode())


if __name__ == "__main__":
    serve_parent(int(sys.argv[1]), int(sys.argv[2]), serve)

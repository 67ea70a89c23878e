"""A process that trains agents without some tricks, and TD3 itself, in one population.

Started as `python -m td3.microscope.experiment` by `background.py`. It ends with its parent.
"""

import dataclasses
import json
import os
import sys
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
TASKS: dict[str, dict[str, Any]] = {
    "pendulum": {"environment": {"id": "Pendulum-v1"}, "loop.replay_size": 15_000},
    "noise": {
        "environment": {"id": "td3.microscope.world:NoisyWorld"},
        "loop.replay_size": 1000,  # noise that is sampled again and again is learned
    },
}
EPISODES = 2
RETURNS = "returns.jsonl"


class Compare(Callback):
    """Writes predicted and achieved values of each agent after every evaluation."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def on_evaluation(self, run: LiveRun, evaluations: list[dict[str, Any]]) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            for record in evaluations:
                found = measure_returns(specimen_of(run, record["agent"]), EPISODES)
                facts = {"step": record["step"], "agent": record["agent"]}
                facts |= {
                    "predicted": float(found.predicted.mean()),
                    "achieved": float(found.achieved.mean()),
                }
                file.write(json.dumps(facts) + "\n")


def specimen_of(run: LiveRun, agent: int) -> Specimen:
    """One agent of a running training. The world of noise is without its noise."""
    member = dataclasses.replace(run.config.member(agent), device="cpu")
    if member.environment.id == TASKS["noise"]["environment"]["id"]:
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


def train_without(folder: Path, task: str, off: list[str], steps: int, seeds: int) -> None:
    """Train `seeds` agents as TD3 and as many without these tricks, with the same seeds."""
    delayed = "delay" not in off
    train(
        recipe="quick",
        run=folder / "run",
        quiet=True,
        callbacks=[Compare(folder / RETURNS)],
        variant={"name": WithoutTricks, **{name: name not in off for name in TRICKS}},
        grid={"variant.changed": (0.0, 1.0)},
        seeds=seeds,
        execution="eager",
        threads=1,
        device="cpu",
        **{
            **TASKS[task],
            "agent.policy_freq": DELAY if delayed else 1,
            "loop.steps": steps,
            "loop.random_steps": 500,
            "loop.log_every": 250,
            "evaluation.every": 500,
            "evaluation.episodes": 3,
            "checkpoint.every": steps,
        },
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

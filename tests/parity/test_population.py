"""Agent k of a population is what it would be alone."""

from pathlib import Path

import numpy as np
import pytest
import torch

from td3.config import Config, from_dict
from td3.launch import prepared
from td3.run import create
from td3.signals import StopRequest
from td3.training import Training

TOLERANCE = 2e-4  # float32 rounds differently in a batched product; it grows over 100 updates


def config(**top: object) -> Config:
    return from_dict(
        {
            "environment": {"id": "Pendulum-v1"},
            "agent": {"hidden_sizes": [64, 48], "batch_size": 32},
            "loop": {"steps": 160, "random_steps": 60, "replay_size": 1000, "log_every": 80},
            "evaluation": {"every": 160, "episodes": 1},
            "device": "cpu",
            **top,
        }
    )


def trained(settings: Config, folder: Path) -> Training:
    with prepared(settings, create(settings, folder), None) as training:
        training.loop(StopRequest())
    return training


@pytest.mark.parametrize("update", ["step", "episode"])
def test_a_seed_trains_the_same_alone_and_among_others(update: str, tmp_path: Path) -> None:
    # Pendulum's episodes last 200 steps: 40 + 200 steps end one, and train 200 times at its end.
    steps = 160 if update == "step" else 240
    loop = {"steps": steps, "random_steps": 60, "replay_size": 1000, "update": update}
    together = trained(config(seeds=3, seed=4, loop=loop), tmp_path / "together")
    for member in range(3):
        alone = trained(config(seed=4 + member, loop=loop), tmp_path / f"alone-{member}")
        assert alone.agent.updates[0] == together.agent.updates[member] >= 100
        mine, theirs = alone.agent.tensors(), together.agent.member(member).tensors()
        for name, tensor in mine.items():
            if "optimizer" in name:
                continue
            torch.testing.assert_close(tensor, theirs[name], atol=TOLERANCE, rtol=TOLERANCE)
        assert alone.replay.rows is not None
        assert together.replay.rows is not None
        size = int(alone.replay.added[0])
        np.testing.assert_allclose(
            alone.replay.rows[0, :size], together.replay.rows[member, :size], atol=1e-3
        )


def test_members_are_not_copies_of_each_other(tmp_path: Path) -> None:
    together = trained(config(seeds=2), tmp_path / "run")
    actor = together.agent.actor.flat
    assert not torch.allclose(actor[0], actor[1])
    assert together.replay.rows is not None
    assert not torch.allclose(together.replay.rows[0], together.replay.rows[1])

"""Agent k of a population gets the numbers of the same agent trained alone, up to rounding."""

from pathlib import Path

import numpy as np
import pytest
import torch

from td3.config import Config, from_dict
from td3.launch.session import open_training
from td3.run.folder import create
from td3.seeding import stream_state
from td3.signals import StopRequest
from td3.training.loop import Training
from td3.training.snapshot import used_streams

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
    with open_training(settings, create(settings, folder), None) as training:
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
        assert_same(alone, together, member)


GRID = {
    "agent.actor_learning_rate": [3e-4, 1e-3],
    "agent.critic_learning_rate": [3e-4, 1e-3],
    "agent.discount": [0.9, 0.99],
    "agent.tau": [0.005, 0.1],
    "agent.policy_noise": [0.1, 2.0],
    "agent.noise_clip": [0.5, 0.02],
    "loop.exploration_noise": [0.1, 0.3],
    "environment.reward_scale": [0.5, 1.0],
}


@pytest.mark.parametrize("key", sorted(GRID))
@pytest.mark.parametrize("update", ["step", "episode"])
def test_a_member_of_a_grid_is_the_run_with_its_settings(
    key: str, update: str, tmp_path: Path
) -> None:
    steps = 130 if update == "step" else 200
    loop = {"steps": steps, "random_steps": 60, "replay_size": 1000, "update": update}
    settings = config(seed=4, seeds=2, grid={key: GRID[key]}, loop=loop)
    together = trained(settings, tmp_path / "together")
    # The last: the second seed with the second value.
    own = settings.member(3)
    table, _, name = key.partition(".")
    assert (own.seed, getattr(getattr(own, table), name)) == (5, GRID[key][1])
    alone = trained(own, tmp_path / "alone")
    assert alone.agent.updates[0] == together.agent.updates[3] >= 70
    assert_same(alone, together, 3)
    # The draws are exactly the same; only results computed from them are rounded.
    streams = {
        name.partition(".")[0]: stream
        for name, stream in used_streams(together).items()
        if name.endswith(".3")
    }
    for name, stream in used_streams(alone).items():
        assert stream_state(stream) == stream_state(streams[name.partition(".")[0]])
    # The agent uses its own value.
    lone, critics = alone.agent.critic.flat.detach(), together.agent.critic.flat.detach()
    assert (lone[0] - critics[3]).abs().max() < 0.2 * (lone[0] - critics[1]).abs().max()


def assert_same(alone: Training, together: Training, member: int) -> None:
    mine, theirs = alone.agent.tensors(), together.agent.member(member).tensors()
    for name, tensor in mine.items():
        if "optimizer" not in name:
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

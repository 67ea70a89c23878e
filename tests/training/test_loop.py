"""What counts as a step: only what an environment did with an action."""

from pathlib import Path

import numpy as np
import pytest
from support.run_tools import tiny

from td3.launch.session import open_training
from td3.run.folder import create
from td3.signals import StopRequest

TASK = "support.worker_tasks:Counting-v0"  # episodes of 7 steps


@pytest.mark.parametrize(("seeds", "count"), [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_vector_that_resets_in_the_next_step_counts_and_learns_from_real_steps_only(
    seeds: int, count: int, tmp_path: Path
) -> None:
    config = tiny(
        environment={"id": TASK, "count": count, "vectorization": "sync"},
        agent={"hidden_sizes": [8, 8]},
        loop={"steps": 300, "replay_size": 1000},
        evaluation={"every": 10_000},
        seeds=seeds,
    )
    with open_training(config, create(config, tmp_path / "run")) as training:
        training.loop(StopRequest())
        assert 300 <= training.step < 300 + count
        assert training.collector.pending is not None
        real = training.collector.pending.steps.real
        assert real is not None
        stored = training.replay.added + real.reshape(seeds, count).sum(1)
        assert stored.sum() // seeds == training.step
        updates = training.agent.updates - (training.step - 100)
        assert ((updates >= 0) & (updates < count)).all()  # the first ones are at step 101 or later


def test_normalizer_does_not_observe_states_whose_action_is_ignored(tmp_path: Path) -> None:
    config = tiny(
        environment={"id": TASK, "vectorization": "sync", "normalize_observations": True},
        loop={"steps": 140},
        evaluation={"every": 10_000},
    )
    with open_training(config, create(config, tmp_path / "run")) as training:
        training.loop(StopRequest())
        normalizer = training.agent.normalizer
        assert normalizer is not None
        # In an episode the second number counts 0 to 6; at 7 the vector only resets.
        assert np.allclose(normalizer.mean[0, 1], 3.0)

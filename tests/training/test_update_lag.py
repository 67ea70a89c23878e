"""The update of step t samples transitions up to step t - 2 (docs/architecture.md)."""

from pathlib import Path

import pytest

from td3.config import from_dict
from td3.launch.session import open_training
from td3.run.folder import create
from td3.signals import StopRequest


@pytest.mark.parametrize("seeds", [1, 2])
def test_update_of_a_step_samples_what_was_stored_two_steps_before(
    seeds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = from_dict(
        {
            "environment": {"id": "Pendulum-v1"},
            "agent": {"hidden_sizes": [8], "batch_size": 4},
            "loop": {"steps": 30, "random_steps": 10, "replay_size": 100},
            "evaluation": {"every": 30, "episodes": 1},
            "seeds": seeds,
            "device": "cpu",
        }
    )
    lags = []
    with open_training(config, create(config, tmp_path / "run"), None) as training:
        learn = training.learner.learn

        def learn_and_note(updates: int) -> None:
            lags.append(training.step - int(training.replay.added.max()))
            learn(updates)

        monkeypatch.setattr(training.learner, "learn", learn_and_note)
        training.loop(StopRequest())
    assert lags == [2] * 20

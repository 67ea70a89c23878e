"""Runs with every kind of exploration: resumed exactly, and alone as in a population."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.run_tools import different, tiny, train_in_pieces

from td3.config import EXPLORATIONS, Config
from td3.launch.session import open_training
from td3.run.folder import create
from td3.seeding import stream_state
from td3.signals import StopRequest
from td3.training.exploration import GaussianExploration

OWN = f"{__name__}:Decaying"
KINDS = [*EXPLORATIONS, OWN]


class Decaying(GaussianExploration):
    """A user's class: noise that gets smaller with every step."""

    factor = 1.0

    def draw(self, begins: Any) -> Any:
        self.factor *= 0.99
        return self.factor * super().draw(begins)

    def state(self) -> Any:
        return super().state() | {"factor": np.array(self.factor)}

    def restore(self, arrays: Any) -> None:
        super().restore(arrays)
        self.factor = float(arrays["factor"])


def config(kind: str, **tables: Any) -> Config:
    loop = {"exploration": kind, "steps": 450, **tables.pop("loop", {})}
    return tiny(loop=loop, **tables)


@pytest.mark.parametrize("kind", KINDS)
def test_run_with_exploration_in_pieces_equals_run_in_one(kind: str, tmp_path: Path) -> None:
    """Stops are in the random steps, inside blocks of noise and around the end of an episode."""
    settings = config(kind, seeds=2, environment={"count": 2})
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert train_in_pieces(settings, whole, []) == []
    assert train_in_pieces(settings, pieces, [37, 130, 204, 330, 400]) == []
    assert different(whole, pieces) == []
    if kind != "gaussian":
        train_in_pieces(config("gaussian", seeds=2, environment={"count": 2}), tmp_path / "g", [])
        assert different(whole, tmp_path / "g") != []


@pytest.mark.parametrize("kind", KINDS)
def test_agent_explores_alone_as_in_a_population(kind: str, tmp_path: Path) -> None:
    grid = {"loop.exploration_noise": [0.1, 0.3]}
    together = config(kind, loop={"steps": 320}, seeds=2, grid=grid)
    populations = []
    for name, settings in {"together": together, "alone": together.member(3)}.items():
        with open_training(settings, create(settings, tmp_path / name), None) as training:
            training.learner.learn = lambda updates: None  # type: ignore[method-assign]
            training.loop(StopRequest())
        populations.append(training)
    many, one = populations
    assert stream_state(one.streams[0].explore) == stream_state(many.streams[3].explore)
    assert one.replay.rows is not None
    assert many.replay.rows is not None
    size = int(one.replay.added[0])
    assert size == 319
    # Without learning, actors differ by rounding only; what else is in an action is noise.
    np.testing.assert_allclose(one.replay.rows[0, :size], many.replay.rows[3, :size], atol=1e-4)

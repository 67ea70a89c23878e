"""What is made and checked before a run starts."""

from pathlib import Path

import pytest
from support.run_tools import tiny

from td3.environments.environment import Environment
from td3.launch.start import start
from td3.training.loop import Training


def test_start_makes_one_environment_before_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Environment] = []
    make = Environment.__init__

    def count(self: Environment, *given: object, **settings: object) -> None:
        made.append(self)
        make(self, *given, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(Environment, "__init__", count)
    monkeypatch.setattr(Training, "loop", lambda self, stop: None)
    start(tiny(), tmp_path / "run")
    assert len(made) == 1

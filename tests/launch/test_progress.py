"""What a run shows of itself."""

import pytest

from td3.launch import progress
from td3.launch.progress import Pace


def test_time_left_is_reckoned_from_steps_that_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    pace, step = Pace(learns_from=1000), 0
    speeds = {}
    while step < 1200:
        step += 100 if step < 1000 else 1
        now += 1.0
        assert pace.tick(step)
        speeds[step] = pace.speed
    assert speeds[900] == pytest.approx(100)
    assert speeds[1001] == 0.0  # not known yet
    assert speeds[1010] == speeds[1200] == pytest.approx(1)

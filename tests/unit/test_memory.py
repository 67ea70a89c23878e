"""Where the replay rings go, decided and said before training."""

import dataclasses

import pytest

from td3 import memory
from td3.config import Config, EnvironmentConfig, LoopConfig
from td3.errors import UserError

GIGABYTE = 10**9


def config(device: str) -> Config:
    """Ten rings of a million HalfCheetah transitions: 1.68 GB."""
    return dataclasses.replace(
        Config(), environment=EnvironmentConfig("HalfCheetah-v5"), seeds=10, device=device,
        loop=LoopConfig(replay_size=1_000_000),
    )  # fmt: skip


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Gigabytes that are free, to be set by the test."""
    found = {"host": 100.0, "gpu": 100.0}
    monkeypatch.setattr(memory, "available_bytes", lambda: int(found["host"] * GIGABYTE))
    monkeypatch.setattr(memory, "device_bytes", lambda device: int(found["gpu"] * GIGABYTE))
    return found


@pytest.mark.parametrize(
    ("device", "gpu", "place", "words"),
    [
        ("cpu", 0.0, "cpu", "10 × 1,000,000 transitions, 1.7 GB of main memory"),
        ("cuda", 100.0, "cuda", "10 × 1,000,000 transitions, 1.7 GB of GPU memory"),
        ("cuda:1", 1.9, "cuda:1", "10 × 1,000,000 transitions, 1.7 GB of GPU memory"),
        (
            "cuda", 1.5, "cpu",
            "10 × 1,000,000 transitions, 1.7 GB, in host memory, which is slower: "
            "the GPU has 1.5 GB free",
        ),
    ],
)  # fmt: skip
def test_rings_go_where_they_fit(
    free: dict[str, float], device: str, gpu: float, place: str, words: str
) -> None:
    free["gpu"] = gpu
    assert memory.check_memory(config(device), 17, 6) == place
    assert memory.in_words(config(device), 17, 6, place) == words


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_rings_that_fit_nowhere_are_refused(free: dict[str, float], device: str) -> None:
    free["gpu"] = free["host"] = 1.0
    with pytest.raises(UserError, match=r"needs 1\.7 GB .* only 1\.0 GB .* --loop\.replay-size 53"):
        memory.check_memory(config(device), 17, 6)

"""Where the replay rings go, decided and said before training."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import td3
from td3.config import CheckpointConfig, Config, EnvironmentConfig, LoopConfig
from td3.errors import UserError
from td3.run import memory

GIGABYTE = 10**9


def config(device: str) -> Config:
    """Ten rings of a million HalfCheetah transitions: 1.68 GB."""
    return dataclasses.replace(
        Config(),
        environment=EnvironmentConfig("HalfCheetah-v5"),
        seeds=10,
        device=device,
        loop=LoopConfig(replay_size=1_000_000),
    )


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
            "cuda",
            1.5,
            "cpu",
            "10 × 1,000,000 transitions, 1.7 GB, in host memory, which is slower: "
            "the GPU has 1.5 GB free",
        ),
    ],
)
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


@pytest.mark.parametrize(("device", "whose"), [("cpu", ""), ("cuda:0", "GPU ")])
@pytest.mark.parametrize("sizes", [{"batch_size": 10**9}, {"hidden_sizes": (10**6, 10**6)}])
def test_networks_and_batches_that_cannot_fit_are_refused(
    free: dict[str, float], sizes: dict[str, Any], device: str, whose: str
) -> None:
    small = dataclasses.replace(config(device), seeds=1)
    assert memory.check_memory(small, 17, 6) == device
    large = dataclasses.replace(small, agent=dataclasses.replace(small.agent, **sizes))
    said = rf"Networks and batches need .* GB of {whose}memory are free; use smaller"
    with pytest.raises(UserError, match=said):
        memory.check_memory(large, 17, 6)


def test_no_advice_that_cannot_be_followed(free: dict[str, float]) -> None:
    free["gpu"] = 1e7  # networks fit, rings do not
    many = dataclasses.replace(config("cuda"), seeds=10**9)
    with pytest.raises(UserError, match=r"are free; use fewer agents\.$"):
        memory.check_memory(many, 17, 6)


PICTURE = {"stack": 3, "of": {"image": [84, 84, 3]}}


def test_images_too_many_for_memory_go_to_disk(free: dict[str, float]) -> None:
    pictures = dataclasses.replace(config("cpu"), seeds=1)
    sizes = (84 * 84 * 9, 6)
    raw = 84 * 84 * 3 * 1_000_000
    assert raw < memory.ring_bytes(pictures, *sizes, PICTURE) < 1.1 * raw
    assert memory.check_memory(pictures, *sizes, PICTURE) == "cpu"
    free["host"] = 20.0
    assert memory.check_memory(pictures, *sizes, PICTURE) == "disk"
    assert memory.in_words(pictures, *sizes, "disk", PICTURE) == (
        "1 × 1,000,000 transitions, 21.6 GB, on disk, which is slower: 20.0 GB of memory are free"
    )


def test_a_disk_too_small_for_the_checkpoints_is_refused(
    free: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """21.6 GB of images, saved in pieces of a tenth, and once more as a ring on disk."""
    disk = {"free": 30e9}
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda folder: SimpleNamespace(**disk))
    pictures = dataclasses.replace(config("cpu"), seeds=1, checkpoint=CheckpointConfig(100_000))
    long = dataclasses.replace(pictures, loop=dataclasses.replace(pictures.loop, steps=10**7))
    short = dataclasses.replace(pictures, loop=dataclasses.replace(pictures.loop, steps=300_000))

    def check(asked: Config) -> None:
        memory.check_disk(asked, 84 * 84 * 9, 6, PICTURE, tmp_path)

    check(long)
    disk["free"] = 25e9
    check(pictures)
    with pytest.raises(UserError, match=r"will need 28\.0 GB, but .* has room for 25\.0 GB; make"):
        check(long)
    free["host"] = 20.0  # the ring goes to disk
    disk["free"] = 30e9
    check(short)
    with pytest.raises(UserError, match=r"ring and its copy .* need 43\.1 GB.* fewer agents, or"):
        check(pictures)
    (tmp_path / "replay").mkdir()
    for name in ("replay/000000001.rows", "replay.images"):  # resumed: some of it is there
        with (tmp_path / name).open("wb") as saved:
            saved.truncate(7_000_000_000)
    check(pictures)
    disk["free"] = 28e9
    with pytest.raises(UserError, match=r"room for 42\.0 GB; make room, or take another disk\.$"):
        check(pictures)


def test_a_run_that_will_not_fit_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match="Checkpoints, which keep the replay ring, will need"):
        td3.train("Pendulum-v1", "quick", run=tmp_path / "run", device="cpu", threads=1)
    assert not list(tmp_path.iterdir())

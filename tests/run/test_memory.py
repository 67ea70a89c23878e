"""Where replay buffers are kept, and which runs are refused because they do not fit."""

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
CHEETAH = memory.example_task(17, 6)


def config(device: str) -> Config:
    """Ten replay buffers of a million HalfCheetah transitions: 1.68 GB."""
    return dataclasses.replace(
        Config(),
        environment=EnvironmentConfig("HalfCheetah-v5"),
        seeds=10,
        device=device,
        loop=LoopConfig(replay_size=1_000_000),
    )


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Free gigabytes; the test sets them."""
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
def test_check_memory_chooses_the_first_place_that_fits(
    free: dict[str, float], device: str, gpu: float, place: str, words: str
) -> None:
    free["gpu"] = gpu
    assert memory.check_memory(config(device), CHEETAH) == place
    assert memory.describe_replay(config(device), CHEETAH, place) == words


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_check_memory_buffers_that_fit_nowhere_are_refused(
    free: dict[str, float], device: str
) -> None:
    free["gpu"] = free["host"] = 1.0
    with pytest.raises(UserError, match=r"needs 1\.7 GB .* only 1\.0 GB .* --loop\.replay-size 53"):
        memory.check_memory(config(device), CHEETAH)


@pytest.mark.parametrize(("device", "whose"), [("cpu", ""), ("cuda:0", "GPU ")])
@pytest.mark.parametrize("sizes", [{"batch_size": 10**9}, {"hidden_sizes": (10**6, 10**6)}])
def test_check_memory_networks_and_batches_too_large_are_refused(
    free: dict[str, float], sizes: dict[str, Any], device: str, whose: str
) -> None:
    small = dataclasses.replace(config(device), seeds=1)
    assert memory.check_memory(small, CHEETAH) == device
    large = dataclasses.replace(small, agent=dataclasses.replace(small.agent, **sizes))
    message = rf"Networks and batches need .* GB of {whose}memory are free; use smaller"
    with pytest.raises(UserError, match=message):
        memory.check_memory(large, CHEETAH)


def test_check_memory_does_not_advise_a_buffer_of_size_zero(free: dict[str, float]) -> None:
    free["gpu"] = 1e7  # networks fit, replay buffers do not
    many = dataclasses.replace(config("cuda"), seeds=10**9)
    with pytest.raises(UserError, match=r"are free; use fewer agents\.$"):
        memory.check_memory(many, CHEETAH)


PICTURES = memory.example_task(84 * 84 * 9, 6, {"stack": 3, "of": {"image": [84, 84, 3]}})


def test_check_memory_images_too_large_for_memory_go_to_disk(free: dict[str, float]) -> None:
    pictures = dataclasses.replace(config("cpu"), seeds=1)
    raw = 84 * 84 * 3 * 1_000_000
    assert raw < memory.replay_bytes(pictures, PICTURES) < 1.1 * raw
    assert memory.check_memory(pictures, PICTURES) == "cpu"
    free["host"] = 20.0
    assert memory.check_memory(pictures, PICTURES) == "disk"
    assert memory.describe_replay(pictures, PICTURES, "disk") == (
        "1 × 1,000,000 transitions, 21.6 GB, on disk, which is slower: 20.0 GB of memory are free"
    )


def test_check_disk_too_small_for_checkpoints_is_refused(
    free: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """21.6 GB of images, in checkpoints of a tenth each, and once more as a buffer on disk."""
    disk = {"free": 30e9}
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda folder: SimpleNamespace(**disk))
    pictures = dataclasses.replace(config("cpu"), seeds=1, checkpoint=CheckpointConfig(100_000))
    long = dataclasses.replace(pictures, loop=dataclasses.replace(pictures.loop, steps=10**7))
    short = dataclasses.replace(pictures, loop=dataclasses.replace(pictures.loop, steps=300_000))

    def check(asked: Config) -> None:
        place = memory.check_memory(asked, PICTURES)
        memory.check_disk(asked, PICTURES, place, tmp_path)

    check(long)
    disk["free"] = 25e9
    check(pictures)
    with pytest.raises(UserError, match=r"will need 28\.0 GB, but .* has room for 25\.0 GB; make"):
        check(long)
    free["host"] = 20.0  # the replay buffer goes to disk
    disk["free"] = 30e9
    check(short)
    with pytest.raises(UserError, match=r"buffer and its copy .* need 43\.1 GB.* fewer agents, or"):
        check(pictures)
    (tmp_path / "replay").mkdir()
    for name in ("replay/000000001.rows", "replay.images"):  # a resumed run: some of it exists
        with (tmp_path / name).open("wb") as saved:
            saved.truncate(7_000_000_000)
    check(pictures)
    disk["free"] = 28e9
    with pytest.raises(UserError, match=r"room for 42\.0 GB; make room, or use another disk\.$"):
        check(pictures)


def test_train_that_will_not_fit_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(UserError, match="Checkpoints, which contain the replay buffer, will need"):
        td3.train("Pendulum-v1", "quick", run=tmp_path / "run", device="cpu", threads=1)
    assert not list(tmp_path.iterdir())


def test_check_environments_too_many_for_the_memory_are_refused(free: dict[str, float]) -> None:
    free["host"] = 8.0
    many = dataclasses.replace(Config(), seeds=100_000)
    memory.check_environments(many, 20_000)
    with pytest.raises(UserError, match=r"^100,000 environments need about 100.0 GB but only 8.0"):
        memory.check_environments(many, 1_000_000)
    workers = dataclasses.replace(many, environment=EnvironmentConfig(workers=1_000))
    with pytest.raises(UserError, match=r"^100,000 environments in 1,000 workers need about 50.0"):
        memory.check_environments(workers, 0)


def test_check_disk_ignores_a_file_that_another_process_removes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "replay" / "000000100.rows"
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: [gone])
    memory.check_disk(Config(), CHEETAH, "memory", tmp_path)

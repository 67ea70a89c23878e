"""Comparison with other libraries: order, speed-ups and failures, with fake libraries."""

import dataclasses
import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from support.authors_files import AGENT

from benchmarks.td3_bench import main
from benchmarks.td3_bench.peers import (
    LIBRARIES,
    OURS,
    Library,
    authors,
    authors_graphs,
    comparison,
    train_in_pieces,
)
from benchmarks.td3_bench.peers.comparison import (
    LibraryFailed,
    LibraryProcess,
    LibraryResult,
    bench_peers,
    rotate,
    speed_ups,
    thread_variables,
)
from td3.bench.measure import Rounds
from td3.config import Config, load_recipe
from td3.errors import UserError

ROOT = Path(__file__).parents[2]
ROUNDS = Rounds(2, 0.5)
INSTALL = "not installed; pip install -r benchmarks/peers.txt"
FAKE = """
import os, sys, time

SPEED, TROUBLE = {speed}, {trouble!r}

class Fake:
    rounds = 0

    def train(self, seconds):
        print("a library that prints")
        if seconds != 0.5:
            return 200, 1.0  # the warm-up
        self.rounds += 1
        with open({log!r}, "a") as log:
            print(__name__, os.environ["OMP_NUM_THREADS"], file=log)
        if TROUBLE == "dies" and self.rounds == 2:
            print("out of luck", file=sys.stderr, flush=True)
            os._exit(3)
        return SPEED * int(os.environ["OMP_NUM_THREADS"]), 1.0

def start(config):
    if TROUBLE == "raises":
        raise ValueError("no such thing\\nand more")
    if TROUBLE == "hangs":
        time.sleep(60)
    return Fake()
"""


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def config() -> Config:
    recipe = load_recipe("quick")
    environment = dataclasses.replace(recipe.environment, id="Pendulum-v1")
    return dataclasses.replace(recipe, environment=environment, device="cpu")


def make_library(
    name: str, log: Path, monkeypatch: pytest.MonkeyPatch, speed: int = 100, trouble: str = ""
) -> Library:
    """Write an adapter that the library's process can import."""
    text = FAKE.format(speed=speed, trouble=trouble, log=str(log))
    (log.parent / f"{name}.py").write_text(text, encoding="utf-8")
    folders = [str(log.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
    return Library(name, "json", "numpy", "nothing")


def test_bench_peers_alternates_and_divides_speeds_of_the_same_round(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = {
        OURS: make_library("fake_ours", log, monkeypatch, speed=300),
        "other": make_library("fake_other", log, monkeypatch, speed=100),
        "absent": Library("fake_absent", "no_such_library", "nothing", "nothing"),
    }
    found = bench_peers(config(), (1, 2), ROUNDS, libraries)
    order = ["fake_ours 1", "fake_ours 2", "fake_other 1", "fake_other 2"]
    assert log.read_text().splitlines() == order + order[1:] + order[:1]
    assert found.results["other"].speeds == {1: [100, 100], 2: [200, 200]}
    assert {name: figure.values for name, figure in found.figures.items()} == {
        "td3_over_other_1_threads": [3, 3],
        "td3_over_other_2_threads": [3, 3],
        "td3_over_other_better": [3, 3],
    }
    report = json.loads(json.dumps(found.as_dict()))
    assert report.keys() >= {"benchmark", "settings", "figures", "machine", "contestants"}
    assert report["settings"]["threads"] == [1, 2]
    assert report["settings"]["update"] == "step"
    assert report["contestants"]["absent"]["absent"] == INSTALL
    assert report["contestants"][OURS]["better_threads"] == 2
    assert report["contestants"][OURS]["steps_per_second"]["1"]["median"] == 300


def test_bench_peers_with_failing_libraries_reports_them_and_continues(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "START_SECONDS", 5.0)
    libraries = {OURS: make_library("fake_ours", log, monkeypatch)}
    for trouble in ("raises", "dies", "hangs"):
        libraries[trouble] = make_library(f"fake_{trouble}", log, monkeypatch, trouble=trouble)
    found = bench_peers(config(), (1,), ROUNDS, libraries=libraries)
    assert found.results[OURS].speeds == {1: [100, 100]}
    assert found.results["raises"].missing == "failed: ValueError: no such thing"
    assert found.results["dies"].missing == "failed: out of luck"
    assert found.results["hangs"].missing == "failed: no answer within 5 s"
    assert found.figures == {}


def test_speed_ups_use_the_best_thread_count_of_each_library() -> None:
    ours = LibraryResult("", speeds={1: [10, 20], 2: [30, 40]})
    theirs = LibraryResult("", speeds={1: [5, 10], 2: [1, 2]})
    found = {name: figure.values for name, figure in speed_ups({OURS: ours, "it": theirs}).items()}
    assert found == {
        "td3_over_it_1_threads": [2, 2],
        "td3_over_it_2_threads": [30, 20],
        "td3_over_it_better": [6, 4],
    }
    assert speed_ups({OURS: LibraryResult("", missing="gone"), "it": theirs}) == {}


def test_rotate_puts_every_item_first_once() -> None:
    assert [rotate([1, 2, 3], turn) for turn in range(4)] == [
        [1, 2, 3],
        [2, 3, 1],
        [3, 1, 2],
        [1, 2, 3],
    ]
    assert rotate([], 3) == []


def test_thread_variables_of_cpu_and_cuda() -> None:
    one = thread_variables(dataclasses.replace(config(), threads=1))
    two = thread_variables(dataclasses.replace(config(), threads=2, device="cuda"))
    assert (one["OMP_NUM_THREADS"], two["MKL_NUM_THREADS"]) == ("1", "2")
    assert (one["XLA_FLAGS"][-5:], two["XLA_FLAGS"][-4:]) == ("false", "true")
    assert (one["JAX_PLATFORMS"], two["JAX_PLATFORMS"]) == ("cpu", "cuda")
    assert one["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in two


def test_train_in_pieces_repeats_until_the_time_is_over() -> None:
    steps, seconds = train_in_pieces(lambda: 7, 0.01)
    assert steps % 7 == 0
    assert steps > 0
    assert seconds >= 0.01


def test_every_library_has_an_adapter_and_a_requirement() -> None:
    assert len(LIBRARIES) == 8
    assert all(find_spec(found.adapter) for found in LIBRARIES.values())
    lines = (ROOT / "benchmarks/peers.txt").read_text(encoding="utf-8").splitlines()
    required = {line.split(">")[0] for line in lines if line[:1] != "#"}
    assert required == {found.distribution for found in LIBRARIES.values()} - {"td3", ""}


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_installed_library_trains_in_its_process(name: str) -> None:
    if find_spec(LIBRARIES[name].module) is None or not LIBRARIES[name].distribution:
        pytest.skip(f"{name} is not installed")
    loop = dataclasses.replace(config().loop, random_steps=100, update="step", replay_size=1000)
    worker = LibraryProcess(LIBRARIES[name], dataclasses.replace(config(), loop=loop))
    try:
        worker.wait_until_ready()
        assert worker.train(0.2) > 1
    except LibraryFailed as failure:
        pytest.fail(str(failure))
    finally:
        worker.close()


def test_peers_command_prints_a_table_and_writes_json(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in LIBRARIES:
        monkeypatch.setitem(
            LIBRARIES, name, Library("none", "no_such_library", "nothing", "nothing")
        )
    monkeypatch.setitem(LIBRARIES, OURS, make_library("fake_ours", log, monkeypatch))
    words = ["peers", "Pendulum-v1", "--rounds", "1", "--seconds", "0.5", "--device", "cpu"]
    assert main([*words, "--out", str(log)]) == 0
    table = capsys.readouterr().out
    assert "steps/s, threads: 1" in table
    assert table.count(INSTALL) == len(LIBRARIES) - 1
    assert json.loads(log.read_text())["benchmark"] == "peers"


@pytest.mark.parametrize("threads", [["0"], ["1", "1"], []])
def test_bench_peers_with_bad_thread_counts_raises(threads: list[str]) -> None:
    with pytest.raises(UserError, match="threads must be"):
        bench_peers(config(), [int(count) for count in threads], ROUNDS, libraries={})


def test_library_process_after_close_is_gone(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = LibraryProcess(make_library("fake_ours", log, monkeypatch), config())
    worker.close()
    assert worker.process.poll() is not None
    with pytest.raises(ProcessLookupError):
        os.kill(worker.process.pid, 0)


def test_authors_adapter_trains_with_their_files_and_explains_what_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TD3", "utils"):
        (tmp_path / f"{name}.py").write_text(AGENT)
    monkeypatch.setenv("TD3_SOURCE", str(tmp_path))
    small = config()
    with pytest.raises(RuntimeError, match="layers of 256 and 256 units only"):
        authors.start(small)
    wide = dataclasses.replace(small.agent, hidden_sizes=(256, 256), batch_size=256)
    loop = dataclasses.replace(small.loop, random_steps=10)
    trainer = authors.start(dataclasses.replace(small, agent=wide, loop=loop))
    steps, seconds = trainer.train(0.05)
    assert steps == trainer.run.steps == len(trainer.run.buffer.done) > 10
    assert trainer.run.agent.trained == steps - 10
    assert seconds >= 0.05
    with pytest.raises(RuntimeError, match="CUDA graphs need a GPU"):
        authors_graphs.start(small)

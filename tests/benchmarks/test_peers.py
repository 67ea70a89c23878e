"""The comparison with other libraries: its order, its ratios and its failures, with fake ones."""

import dataclasses
import json
import os
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import tyro

from td3.bench.measure import Rounds
from td3.bench.peers import ENTRIES, OURS, Entry, contest, train_in_pieces
from td3.bench.peers.contest import (
    Failed,
    Result,
    Worker,
    bench_peers,
    environment_of,
    ratios,
    rotated,
)
from td3.cli.bench import Arguments, run
from td3.config import Config, load_recipe
from td3.errors import UserError

ROOT = Path(__file__).parents[2]
ROUNDS = Rounds(2, 0.5)
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


def entry(
    name: str, log: Path, monkeypatch: pytest.MonkeyPatch, speed: int = 100, trouble: str = ""
) -> Entry:
    """A contestant that a worker can import."""
    text = FAKE.format(speed=speed, trouble=trouble, log=str(log))
    (log.parent / f"{name}.py").write_text(text, encoding="utf-8")
    folders = [Path(contest.__file__).parents[3], log.parent]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, folders)))
    return Entry(name, "json", "numpy", "nothing")


def test_rounds_take_turns_and_ratios_are_of_the_same_round(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {
        OURS: entry("fake_ours", log, monkeypatch, speed=300),
        "other": entry("fake_other", log, monkeypatch, speed=100),
        "absent": Entry("fake_absent", "no_such_library", "nothing", "nothing"),
    }
    ticks: list[int] = []
    found = bench_peers(config(), (1, 2), ROUNDS, lambda: ticks.append(1), entries)
    order = ["fake_ours 1", "fake_ours 2", "fake_other 1", "fake_other 2"]
    assert log.read_text().splitlines() == order + order[1:] + order[:1]
    assert len(ticks) == 3 * 2 + 2  # every start, every round
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
    assert report["contestants"]["absent"]["absent"] == "not installed; pip install 'td3[peers]'"
    assert report["contestants"][OURS]["better_threads"] == 2
    assert report["contestants"][OURS]["steps_per_second"]["1"]["median"] == 300


def test_one_that_fails_says_why_and_the_others_go_on(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest, "START_SECONDS", 5.0)
    entries = {OURS: entry("fake_ours", log, monkeypatch)}
    for trouble in ("raises", "dies", "hangs"):
        entries[trouble] = entry(f"fake_{trouble}", log, monkeypatch, trouble=trouble)
    found = bench_peers(config(), (1,), ROUNDS, entries=entries)
    assert found.results[OURS].speeds == {1: [100, 100]}
    assert found.results["raises"].absent == "failed: ValueError: no such thing"
    assert found.results["dies"].absent == "failed: out of luck"
    assert found.results["hangs"].absent == "failed: no answer within 5 s"
    assert found.figures == {}


def test_the_better_thread_count_is_each_ones_own() -> None:
    ours, theirs = Result("", speeds={1: [10, 20], 2: [30, 40]}), Result("", speeds={1: [5], 2: []})
    theirs.speeds = {1: [5, 10], 2: [1, 2]}
    found = {name: figure.values for name, figure in ratios({OURS: ours, "it": theirs}).items()}
    assert found == {
        "td3_over_it_1_threads": [2, 2],
        "td3_over_it_2_threads": [30, 20],
        "td3_over_it_better": [6, 4],
    }
    assert ratios({OURS: Result("", absent="gone"), "it": theirs}) == {}


def test_everyone_is_first_once() -> None:
    assert [rotated([1, 2, 3], turn) for turn in range(4)] == [
        [1, 2, 3],
        [2, 3, 1],
        [3, 1, 2],
        [1, 2, 3],
    ]
    assert rotated([], 3) == []


def test_threads_are_set_before_a_library_is_imported() -> None:
    one = environment_of(dataclasses.replace(config(), threads=1))
    two = environment_of(dataclasses.replace(config(), threads=2, device="cuda"))
    assert (one["OMP_NUM_THREADS"], two["MKL_NUM_THREADS"]) == ("1", "2")
    assert (one["XLA_FLAGS"][-5:], two["XLA_FLAGS"][-4:]) == ("false", "true")
    assert (one["JAX_PLATFORMS"], two["JAX_PLATFORMS"]) == ("cpu", "cuda")
    assert one["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in two


def test_a_piece_is_repeated_until_the_time_is_over() -> None:
    steps, seconds = train_in_pieces(lambda: 7, 0.01)
    assert steps % 7 == 0
    assert steps > 0
    assert seconds >= 0.01


def test_every_entry_has_its_adapter_and_its_place_in_the_extra() -> None:
    assert len(ENTRIES) == 6
    assert all(find_spec(found.adapter) for found in ENTRIES.values())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = {line.split(">")[0] for line in project["optional-dependencies"]["peers"]}
    assert extra == {found.distribution for found in ENTRIES.values()} - {"td3"}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_installed_library_trains(name: str) -> None:
    """In a process of its own, as in the comparison; also our own way of training."""
    if find_spec(ENTRIES[name].module) is None:
        pytest.skip(f"{name} is not installed")
    loop = dataclasses.replace(config().loop, random_steps=100, update="step", replay_size=1000)
    worker = Worker(ENTRIES[name], dataclasses.replace(config(), loop=loop))
    try:
        worker.wait_until_ready()
        assert worker.train(0.2) > 1
    except Failed as failure:
        pytest.fail(str(failure))
    finally:
        worker.close()


def test_the_table_and_the_json(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ENTRIES:
        monkeypatch.setitem(ENTRIES, name, Entry("none", "no_such_library", "nothing", "nothing"))
    monkeypatch.setitem(ENTRIES, OURS, entry("fake_ours", log, monkeypatch))
    words = ["peers", "Pendulum-v1", "--rounds", "1", "--seconds", "0.5", "--device", "cpu"]
    assert run(tyro.cli(Arguments, args=[*words, "--out", str(log)])) == 0
    shown = capsys.readouterr().out
    assert "steps/s, 1 thread" in shown
    assert shown.count("not installed; pip install 'td3[peers]'") == 5
    assert json.loads(log.read_text())["benchmark"] == "peers"


@pytest.mark.parametrize("threads", [["0"], ["1", "1"], []])
def test_bad_thread_counts_are_refused(threads: list[str]) -> None:
    with pytest.raises(UserError, match="threads must be"):
        bench_peers(config(), [int(count) for count in threads], ROUNDS, entries={})


def test_only_peers_take_several_thread_counts() -> None:
    with pytest.raises(UserError, match="one thread count"):
        run(tyro.cli(Arguments, args=["update", "--threads", "1", "2"]))


def test_nothing_is_left_running(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(entry("fake_ours", log, monkeypatch), config())
    worker.close()
    assert worker.process.poll() is not None
    with pytest.raises(ProcessLookupError):
        os.kill(worker.process.pid, 0)

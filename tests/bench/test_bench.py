"""td3 bench: what it reports and how it fails, not how fast anything is."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from td3.bench import throughput
from td3.bench.measure import Figure, Rounds, measure_in_turn
from td3.cli import main
from td3.execution.gpu.random_upload import AHEAD
from td3.launch.assembly import make_agent
from td3.seeding import Streams
from td3.training.loop import Training

TINY = ["--rounds", "2", "--seconds", "0.02", "--device", "cpu"]
FIGURE = {"median", "lower_quartile", "upper_quartile", "unit", "values"}
PLACE = {"machine", "versions", "commit", "load_average", "time"}


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def bench(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["bench", *words, *TINY, "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_update_json_has_figures_settings_and_machine(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--agents", "2", "--state-dim", "5", "--action-dim", "3"]
    report = bench(capsys, "update", "--recipe", "quick", *sizes)
    assert report["benchmark"] == "update"
    assert report.keys() >= PLACE
    expected = {
        "agents": 2,
        "state_dim": 5,
        "action_dim": 3,
        "rounds": 2,
        "recipe": "quick",
        "device": "cpu",
        "threads": 1,
        "hidden_sizes": [64, 64],
        "batch_size": 128,
        "execution": "auto",
    }
    assert report["settings"].items() >= expected.items()
    assert set(report["figures"]) == {
        "updates_per_second",
        "agent_updates_per_second",
        "milliseconds_per_update",
        "update_gigaflop_per_second",
    }
    for figure in report["figures"].values():
        assert figure.keys() == FIGURE
        assert len(figure["values"]) == 2
        assert 0 < figure["lower_quartile"] <= figure["median"] <= figure["upper_quartile"]
    assert {"torch", "numpy", "python"} <= report["versions"].keys()


def test_update_of_a_variant_with_own_networks_has_no_count_of_operations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = bench(capsys, "update", "--recipe", "quick", "--variant", "lean")
    assert "update_gigaflop_per_second" not in report["figures"]
    assert "megaflop_per_update" not in report["settings"]
    assert report["figures"]["updates_per_second"]["median"] > 0


def test_throughput_shares_of_a_step_sum_to_100(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["Pendulum-v1", "--recipe", "quick", "--agents", "2", "--out", "figures.json"]
    report = bench(capsys, "throughput", *words)
    assert json.loads((tmp_path / "figures.json").read_text()) == report
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
    assert report["settings"]["environment"] == "Pendulum-v1"
    figures = report["figures"]
    assert figures["agent_steps_per_second"]["values"] == [
        2 * value for value in figures["steps_per_second"]["values"]
    ]
    shares = [figure["values"] for name, figure in figures.items() if name.endswith("_share")]
    assert len(shares) == 8
    assert np.sum(shares, axis=0) == pytest.approx([100, 100])
    assert np.min(shares) > 0


def test_throughput_prints_the_time_of_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["throughput", "Pendulum-v1", "--recipe", "quick", "--agents", "3", "--workers", "1"]
    assert main(["bench", *words, *TINY]) == 0
    text = capsys.readouterr().out
    assert "workers 1" in text
    _, breakdown = text.split("Time of one step of all environments")
    for part in ("acting", "simulator", "transfer", "replay add", "statistics", "update", "other"):
        assert re.search(rf"  {part} +[\d.,]+ µs +[\d.e-]+ %", breakdown)


def test_host_only_learns_nothing_and_draws_every_number(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Training] = []
    close = Training.close
    monkeypatch.setattr(Training, "close", lambda own: (trained.append(own), close(own)))
    words = ["Pendulum-v1", "--recipe", "quick", "--agents", "2", "--host-only"]
    report = bench(capsys, "throughput", *words)
    assert report["benchmark"] == "host"
    assert report["figures"]["host_cpu_microseconds"]["median"] > 0
    agent, replay = trained[0].agent, trained[0].replay
    fresh = make_agent(trained[0].config, trained[0].population, trained[0].environments.task)
    assert torch.equal(agent.actor.flat, fresh.actor.flat)
    assert replay.added.tolist() == [trained[0].step - 1] * 2
    blocks = -(-int(agent.updates[0]) // AHEAD) + 1  # one is drawn ahead
    stream = Streams.from_seed(trained[0].config.agent_seeds[1]).replay
    stream.random(blocks * AHEAD * trained[0].config.agent.batch_size)
    assert replay.streams[1].bit_generator.state == stream.bit_generator.state


def test_throughput_with_updates_after_episodes_times_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text('[agent]\nhidden_sizes = [8]\nbatch_size = 4\n[loop]\nupdate = "episode"\n')
    report = bench(capsys, "throughput", "Pendulum-v1", "--recipe", str(recipe))
    assert report["settings"]["update"] == "episode"
    assert report["figures"]["update_share"]["median"] > 0


def test_bench_without_json_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "update", "--recipe", "quick", *TINY]) == 0
    table = capsys.readouterr().out
    assert "updates per second" in table
    assert "agent updates per second" not in table  # the same for one agent


def test_measure_in_turn_alternates_works_in_whole_cycles() -> None:
    calls: list[tuple[str, int]] = []
    works = {name: lambda times, name=name: calls.append((name, times)) for name in ("a", "b")}
    seconds = measure_in_turn(works, 3, Rounds(2, 1e-6), torch.device("cpu"))
    assert [name for name, _ in calls[-4:]] == ["a", "b", "a", "b"]
    assert all(times % 3 == 0 for _, times in calls)
    assert {name: len(values) for name, values in seconds.items()} == {"a": 2, "b": 2}


def test_figure_quartiles_of_known_values() -> None:
    assert Figure("s", [4.0, 1.0, 2.0, 3.0, 5.0]).quartiles == (2, 3, 4)


class Endless(gym.Env[Any, Any]):
    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["update", "--rounds", "0"], "rounds must be"),
        (["update", "--seconds", "-1"], "seconds must be"),
        (["update", "--agents", "0"], "agents must be"),
        (["update", "--threads", "0"], "threads must be"),
        (["update", "--state-dim", "0"], "state-dim"),
        (["update", "--recipe", "papr"], "paper"),
        (["update", "--out", "no/such/folder.json"], "The folder no/such does not exist"),
        (["throughput", "Pendulun-v1"], "Pendulum-v1"),
        (["throughput", "CartPole-v1"], "continuous actions"),
        (["throughput", "Endless-v0", "--recipe", "course"], "--recipe paper"),
        (["updat"], "updat"),
        ([], "Give update or throughput."),
        (["paper"], "td3 bench paper moved: run `python -m benchmarks paper …` from a checkout"),
        (["peers", "--threads", "1", "2"], "td3 bench peers moved"),
    ],
)
def test_bench_with_bad_input_exits_2_with_one_sentence(
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(
        gym.registry, "Endless-v0", gym.envs.registration.EnvSpec("Endless-v0", Endless)
    )
    monkeypatch.setattr(throughput, "WARM_UP_STEPS", 300)
    assert main(["bench", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_default_environment_depends_on_installed_simulators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(throughput, "find_spec", lambda name: None)
    assert throughput.default_environment() == "Pendulum-v1"
    monkeypatch.setattr(throughput, "find_spec", lambda name: name)
    assert throughput.default_environment() == "HalfCheetah-v5"

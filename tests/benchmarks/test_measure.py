"""Benchmarks: what they report, not how fast anything is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import tyro
from gymnasium import spaces

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.bench import measure as bench
from td3.cli.bench import Arguments, run
from td3.errors import UserError
from td3.execution.products import Multiplier, Product, update_products

TINY = ["--rounds", "2", "--seconds", "0.02", "--recipe", "quick", "--device", "cpu"]
FIGURE = {"median", "lower_quartile", "upper_quartile", "unit", "values"}
PLACE = {"machine", "versions", "commit", "load_average", "time"}


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def measure(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(tyro.cli(Arguments, args=[*TINY, *words, "--json"])) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_a_usual_update_multiplies_413_million_times() -> None:
    products = update_products(17, 6, (256, 256), 256)
    assert products.flop_per_update(policy_freq=2) == pytest.approx(413e6, rel=0.005)
    ten = update_products(17, 6, (256, 256), 256, agents=10)
    assert ten.flop_per_update(2) == 10 * products.flop_per_update(2)


@pytest.mark.parametrize("agents", [1, 2])
def test_images_are_sampled_and_learnt_from(
    agents: int, capsys: pytest.CaptureFixture[str]
) -> None:
    report = measure(capsys, "images", "--recipe", "pixels-quick", "--agents", str(agents))
    figures = report["figures"]
    for figure in figures.values():
        assert set(figure) == FIGURE
    assert figures["sample_over_update"]["median"] < 1
    once, all_of_them = figures["updates_per_second"], figures["agent_updates_per_second"]
    assert all_of_them["median"] == pytest.approx(agents * once["median"])
    assert report["settings"]["state_dim"] == 3 * 32 * 32


def test_products_of_a_network_with_one_hidden_layer_by_hand() -> None:
    products = update_products(3, 2, (4,), batch_size=5)
    every = [(p.step, p.networks, p.rows, p.inner, p.columns) for p in products.every]
    assert every == [
        *((5, 1, 5, 3, 4), (5, 1, 5, 4, 2)),
        *((7, 2, 5, 5, 4), (7, 2, 5, 4, 1)),
        *((10, 2, 5, 5, 4), (10, 2, 5, 4, 1)),
        *((12, 2, 5, 1, 4), (12, 2, 4, 5, 1), (12, 2, 5, 5, 4)),
    ]
    delayed = [(p.networks, p.rows, p.inner, p.columns) for p in products.delayed]
    assert delayed == [
        *((1, 5, 3, 4), (1, 5, 4, 2)),
        *((1, 5, 5, 4), (1, 5, 4, 1)),
        *((1, 5, 1, 4), (1, 5, 4, 2)),
        *((1, 5, 2, 4), (1, 4, 5, 2), (1, 3, 5, 4)),
    ]


def test_the_update_does_these_products_and_no_others() -> None:
    """The list is derived from the sizes; here it is held against what torch really multiplies."""
    state_dim, action_dim, hidden_sizes, batch_size, agents = 3, 2, (8, 6), 5, 2
    agent = TD3(state_dim, action_dim, hidden_sizes=hidden_sizes, seed=range(agents))
    ring = ReplayBuffer(50, seed=range(agents))
    state, action = np.zeros((agents, state_dim)), np.zeros((agents, action_dim))
    ring.add((state, state, action, np.zeros(agents), np.zeros(agents)))
    with torch.profiler.profile(record_shapes=True) as profile:
        agent.train(ring, 2, batch_size)
    operands = {"aten::bmm": slice(0, 2), "aten::baddbmm": slice(1, 3)}
    done = [
        (*left, right[2])
        for event in profile.events()
        if event.name in operands
        for left, right in [event.input_shapes[operands[event.name]]]
    ]

    products = update_products(state_dim, action_dim, hidden_sizes, batch_size, agents)
    expected = [as_tuple(p) for p in (*products.every, *products.every, *products.delayed)]
    # Autograd makes a gradient for the state, too, beside the one for the action in the actor's
    # step. Nothing uses it, so the floor does without.
    expected.remove((agents, batch_size, hidden_sizes[0], action_dim))
    expected.append((agents, batch_size, hidden_sizes[0], state_dim + action_dim))
    assert sorted(done) == sorted(expected)


def as_tuple(product: Product) -> tuple[int, int, int, int]:
    return (product.networks, product.rows, product.inner, product.columns)


def test_multiplier_has_operands_of_the_right_shapes() -> None:
    products = update_products(3, 2, (8, 6), batch_size=5, agents=2)
    multiplier = Multiplier(products, torch.device("cpu"))
    multiplier.multiply(updates=2, policy_freq=2)
    for product, (left, right, result) in zip(products.every, multiplier.every, strict=True):
        assert (*left.shape, right.shape[2]) == as_tuple(product)
        torch.testing.assert_close(result.shape, (left @ right).shape)


def test_update_reports_named_figures_and_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    report = measure(capsys, "update", "--agents", "2", "--state-dim", "5", "--action-dim", "3")
    assert report["benchmark"] == "update"
    assert report.keys() >= PLACE
    assert (
        report["settings"].items()
        >= {
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
        }.items()
    )
    assert set(report["figures"]) == {
        "updates_per_second",
        "agent_updates_per_second",
        "milliseconds_per_update",
        "products_milliseconds_per_update",
        "update_over_products",
        "update_gigaflop_per_second",
        "products_gigaflop_per_second",
    }
    for figure in report["figures"].values():
        assert figure.keys() == FIGURE
        assert len(figure["values"]) == 2
        assert 0 < figure["lower_quartile"] <= figure["median"] <= figure["upper_quartile"]
    assert {"torch", "numpy", "python"} <= report["versions"].keys()


def test_throughput_splits_a_step_into_shares(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report = measure(capsys, "throughput", "Pendulum-v1", "--agents", "2", "--out", "figures.json")
    assert json.loads((tmp_path / "figures.json").read_text()) == report
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
    assert report["settings"]["environment"] == "Pendulum-v1"
    figures = report["figures"]
    assert figures["agent_steps_per_second"]["values"] == [
        2 * value for value in figures["steps_per_second"]["values"]
    ]
    shares = [figure["values"] for name, figure in figures.items() if name.endswith("_share")]
    assert len(shares) == 5
    assert np.sum(shares, axis=0) == pytest.approx([100, 100])
    assert np.min(shares) > 0


def test_throughput_of_a_recipe_that_updates_after_episodes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    recipe = tmp_path / "small.toml"
    recipe.write_text('[agent]\nhidden_sizes = [8]\nbatch_size = 4\n[loop]\nupdate = "episode"\n')
    report = measure(capsys, "throughput", "Pendulum-v1", "--recipe", str(recipe))
    assert report["settings"]["update"] == "episode"
    assert report["figures"]["update_share"]["median"] > 0


def test_the_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tyro.cli(Arguments, args=["update", *TINY])) == 0
    shown = capsys.readouterr().out
    assert "updates per second" in shown
    assert "update ÷ products" in shown
    assert "times agents" not in shown


class Endless(gym.Env[Any, Any]):
    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["update", "Pendulum-v1"], "without an environment"),
        (["update", "--rounds", "0"], "rounds must be"),
        (["update", "--seconds", "-1"], "seconds must be"),
        (["update", "--agents", "0"], "agents must be"),
        (["update", "--state-dim", "0"], "state-dim"),
        (["update", "--recipe", "papr"], "paper"),
        (["update", "--out", "no/such/folder.json"], "no folder"),
        (["throughput", "Pendulun-v1"], "Pendulum-v1"),
        (["throughput", "CartPole-v1"], "continuous actions"),
        (["throughput", "Endless-v0", "--recipe", "course"], "--recipe paper"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        gym.registry, "Endless-v0", gym.envs.registration.EnvSpec("Endless-v0", Endless)
    )
    monkeypatch.setattr(bench, "WARM_UP_STEPS", 300)
    with pytest.raises(UserError, match=sentence):
        run(tyro.cli(Arguments, args=[*TINY, *words]))


def test_default_environment_needs_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    assert bench.default_environment() == "Pendulum-v1"
    monkeypatch.setattr(bench, "find_spec", lambda name: name)
    assert bench.default_environment() == "HalfCheetah-v5"


def test_environments_are_measured_here_and_in_workers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("td3.cli.bench.COUNTS", (1, 3))
    report = measure(capsys, "environments", "Pendulum-v1", "--workers", "2")
    assert report["benchmark"] == "environments"
    assert set(report) == {"benchmark", "settings", "figures"} | PLACE
    assert report["settings"]["workers"] == {"1": 1, "3": 2}
    assert list(report["figures"]) == [
        "own_1",
        "workers_1",
        "own_over_workers_1",
        "own_3",
        "workers_3",
        "own_over_workers_3",
    ]
    for figure in report["figures"].values():
        assert set(figure) == FIGURE
        assert len(figure["values"]) == 2
        assert min(figure["values"]) > 0
    assert run(tyro.cli(Arguments, args=[*TINY, "environments", "Pendulum-v1"])) == 0
    assert "3 in this process" in capsys.readouterr().out

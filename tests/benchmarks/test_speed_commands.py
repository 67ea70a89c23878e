"""python -m benchmarks update, images and environments: what they report."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.td3_bench import COMMANDS, main
from benchmarks.td3_bench.matrix_products import Multiplier, Product, update_products
from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.execution.flop import update_flop

TINY = ["--rounds", "2", "--seconds", "0.02", "--device", "cpu", "--json"]
FIGURE = {"median", "lower_quartile", "upper_quartile", "unit", "values"}


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def bench(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, *TINY]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_names_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    assert f"python -m benchmarks {command}" in capsys.readouterr().out


def test_unknown_command_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["papr"]) == 2
    assert "No benchmark 'papr'. Did you mean 'paper'?" in capsys.readouterr().err
    assert main([]) == 0
    assert "usage: python -m benchmarks COMMAND" in capsys.readouterr().out


def test_update_is_compared_with_its_matrix_products(capsys: pytest.CaptureFixture[str]) -> None:
    report = bench(capsys, "update", "--recipe", "quick", "--agents", "2")
    assert report["benchmark"] == "update"
    figures = {name: figure["values"] for name, figure in report["figures"].items()}
    for update, products, ratio in zip(
        figures["milliseconds_per_update"],
        figures["products_milliseconds_per_update"],
        figures["update_over_products"],
        strict=True,
    ):
        assert ratio == pytest.approx(update / products)


@pytest.mark.parametrize("agents", [1, 2])
def test_images_report_updates_and_sampling(
    agents: int, capsys: pytest.CaptureFixture[str]
) -> None:
    report = bench(capsys, "images", "--recipe", "pixels-quick", "--agents", str(agents))
    figures = report["figures"]
    assert all(set(figure) == FIGURE for figure in figures.values())
    assert figures["sample_over_update"]["median"] < 1
    once, all_agents = figures["updates_per_second"], figures["agent_updates_per_second"]
    assert all_agents["median"] == pytest.approx(agents * once["median"])
    assert report["settings"]["state_dim"] == 3 * 32 * 32


def test_environments_are_measured_in_one_process_and_in_workers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.td3_bench.commands.environments.COUNTS", (1, 3))
    report = bench(capsys, "environments", "Pendulum-v1", "--workers", "2")
    assert report["benchmark"] == "environments"
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


def test_products_of_a_network_with_one_hidden_layer_by_hand() -> None:
    products = update_products(3, 2, (4,), batch_size=5)
    every = [(p.step, *sizes(p)) for p in products.every]
    assert every == [
        *((5, 1, 5, 3, 4), (5, 1, 5, 4, 2)),
        *((7, 2, 5, 5, 4), (7, 2, 5, 4, 1)),
        *((10, 2, 5, 5, 4), (10, 2, 5, 4, 1)),
        *((12, 2, 5, 1, 4), (12, 2, 4, 5, 1), (12, 2, 5, 5, 4)),
    ]
    assert [sizes(p) for p in products.delayed] == [
        *((1, 5, 3, 4), (1, 5, 4, 2)),
        *((1, 5, 5, 4), (1, 5, 4, 1)),
        *((1, 5, 1, 4), (1, 5, 4, 2)),
        *((1, 5, 2, 4), (1, 4, 5, 2), (1, 3, 5, 4)),
    ]


def sizes(product: Product) -> tuple[int, int, int, int]:
    return (product.networks, product.rows, product.inner, product.columns)


def test_products_sum_to_the_flop_of_an_update() -> None:
    shapes = itertools.product((3, 17), (1, 6), ((8,), (400, 300), (8, 6, 4)), (5, 256), (1, 10))
    for shape in shapes:
        expected = update_products(*shape).flop_per_update(policy_freq=3)
        assert update_flop(*shape, policy_freq=3) == pytest.approx(expected)


def test_products_are_those_that_torch_computes() -> None:
    state_dim, action_dim, hidden_sizes, batch_size, agents = 3, 2, (8, 6), 5, 2
    agent = TD3(state_dim, action_dim, hidden_sizes=hidden_sizes, seed=range(agents))
    replay = ReplayBuffer(50, seed=range(agents))
    state, action = np.zeros((agents, state_dim)), np.zeros((agents, action_dim))
    replay.add((state, state, action, np.zeros(agents), np.zeros(agents)))
    with torch.profiler.profile(record_shapes=True) as profile:
        agent.train(replay, 2, batch_size)
    operands = {"aten::bmm": slice(0, 2), "aten::baddbmm": slice(1, 3)}
    computed = [
        (*left, right[2])
        for event in profile.events()
        if event.name in operands
        for left, right in [event.input_shapes[operands[event.name]]]
    ]
    products = update_products(state_dim, action_dim, hidden_sizes, batch_size, agents)
    expected = [sizes(p) for p in (*products.every, *products.every, *products.delayed)]
    # In the actor's step autograd also computes the gradient of the state, which is not used.
    expected.remove((agents, batch_size, hidden_sizes[0], action_dim))
    expected.append((agents, batch_size, hidden_sizes[0], state_dim + action_dim))
    assert sorted(computed) == sorted(expected)


def test_multiplier_operands_have_the_shapes_of_the_products() -> None:
    products = update_products(3, 2, (8, 6), batch_size=5, agents=2)
    multiplier = Multiplier(products, torch.device("cpu"))
    multiplier.multiply(updates=2, policy_freq=2)
    for product, (left, right, result) in zip(products.every, multiplier.every, strict=True):
        assert (*left.shape, right.shape[2]) == sizes(product)
        torch.testing.assert_close(result.shape, (left @ right).shape)

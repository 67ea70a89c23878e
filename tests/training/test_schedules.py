"""Learning rates and action noise that change over a run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.run_tools import different, tiny, train_in_pieces

from td3.config import Config
from td3.launch.session import open_training
from td3.run.folder import create
from td3.signals import StopRequest
from td3.training.loop import Training
from td3.training.schedules import CHANGES, schedule_factor

# Execution modes that read the learning rate before each update.
EXECUTIONS = ("eager", "auto")


@pytest.mark.parametrize(
    ("shape", "progress", "factor"),
    [
        ("constant", 0.7, 1.0),
        ("linear", 0.0, 1.0),
        ("linear", 0.5, 0.6),
        ("linear", 1.0, 0.2),
        ("cosine", 0.0, 1.0),
        ("cosine", 0.25, 1 - 0.8 * (1 - 0.5**0.5) / 2),
        ("cosine", 0.5, 0.6),
        ("cosine", 1.0, 0.2),
    ],
)
def test_schedule_factor_follows_its_curve(shape: Any, progress: float, factor: float) -> None:
    assert schedule_factor(shape, 0.2, progress) == pytest.approx(factor, abs=1e-15)


class Observed:
    """Notes rates and noise after every step."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.noise: list[float] = []
        self.rates: list[Any] = []

    def __call__(self, step: int) -> None:
        self.noise.append(self.training.collector.noise_factor)
        groups = [own.optimizer.param_groups[0] for own in self.training.agent.trained.values()]
        self.rates.append([torch.as_tensor(group["lr"]).clone() for group in groups])


def observe(config: Config, folder: Path) -> Observed:
    with open_training(config, create(config, folder), None) as training:
        observed = Observed(training)
        training.on_step = observed
        training.loop(StopRequest())
    return observed


def test_schedules_go_from_initial_to_final_values(tmp_path: Path) -> None:
    config = tiny(
        agent={"learning_rate_schedule": "linear", "final_learning_rate": 0.25},
        loop={"exploration_schedule": "cosine", "final_exploration_noise": 0.0, "steps": 200},
        evaluation={"every": 200},
    )
    observed = observe(config, tmp_path / "run")
    rates = np.array(observed.rates)
    np.testing.assert_allclose(rates[99], 3e-4 * 0.625)
    np.testing.assert_allclose(rates[-1], 3e-4 * 0.25)
    assert observed.noise[99] == pytest.approx(0.5)
    assert observed.noise[-1] == 0


def test_schedule_multiplies_the_rate_of_each_agent_of_a_grid(tmp_path: Path) -> None:
    config = tiny(
        agent={"learning_rate_schedule": "linear"},
        loop={"steps": 120},
        grid={"agent.actor_learning_rate": [1e-3, 1e-4]},
    )
    actor, critic = observe(config, tmp_path / "run").rates[-1]
    np.testing.assert_allclose(actor, [1e-4, 1e-5])
    np.testing.assert_allclose(critic, 3e-5)


def test_schedule_changes_values_at_most_a_thousand_times(tmp_path: Path) -> None:
    config = tiny(
        agent={"learning_rate_schedule": "linear"}, loop={"steps": 2500, "random_steps": 2400}
    )
    rates = np.array(observe(config, tmp_path / "run").rates)[:, 0]
    assert CHANGES / 2 < len(np.unique(rates)) <= CHANGES
    assert (rates[2:-2:3] == rates[4::3]).all()  # steps 3 and 5, 6 and 8, …


def test_noise_of_a_schedule_is_the_constant_noise_times_the_factor(tmp_path: Path) -> None:
    config = tiny(loop={"exploration_schedule": "linear", "final_exploration_noise": 0.5})
    with open_training(config, create(config, tmp_path / "run"), None) as training:
        collector, nothing = training.collector, np.zeros((1, 1), dtype=np.float32)
        stream = np.random.default_rng(0)
        assert collector.exploration is not None
        collector.exploration.streams = [stream]  # type: ignore[attr-defined]
        training.schedules.apply(300)
        expected = 0.75 * 0.1 * np.random.default_rng(0).standard_normal()
        assert collector.add_noise(nothing)[0, 0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_learning_rate_of_zero_at_the_end_stops_learning(execution: str, tmp_path: Path) -> None:
    """The last update has factor 0, so it must leave the networks as they are."""
    config = tiny(
        agent={"learning_rate_schedule": "linear", "final_learning_rate": 0.0},
        execution=execution,
        loop={"steps": 150},
    )
    flats: list[torch.Tensor] = []
    with open_training(config, create(config, tmp_path / "run"), None) as training:
        training.on_step = lambda step: flats.append(training.agent.critic.flat.detach().clone())
        training.loop(StopRequest())
    assert not torch.equal(flats[-3], flats[-2])
    assert torch.equal(flats[-2], flats[-1])


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("update", ["step", "episode"])
def test_run_with_schedules_in_pieces_equals_run_in_one(
    update: str, execution: str, tmp_path: Path
) -> None:
    config = tiny(
        agent={"learning_rate_schedule": "cosine"},
        loop={"exploration_schedule": "linear", "update": update},
        execution=execution,
        seeds=2,
    )
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert train_in_pieces(config, whole, []) == []
    assert train_in_pieces(config, pieces, [163, 330]) == []
    assert different(whole, pieces) == []
    train_in_pieces(tiny(execution=execution, seeds=2, loop={"update": update}), tmp_path / "c", [])
    assert different(whole, tmp_path / "c") != []

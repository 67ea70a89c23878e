"""The search space: declared ranges, and files that narrow and extend it."""

import tomllib
from typing import Any

import pytest

from td3.config import from_dict, load_recipe
from td3.errors import UserError
from td3.tuning.space import Parameter, default_space, make_space

CONFIG = load_recipe("quick")


def test_default_space_has_declared_ranges_of_numbers_that_agents_may_differ_in() -> None:
    assert list(default_space(CONFIG)) == [
        "agent.actor_learning_rate",
        "agent.critic_learning_rate",
        "agent.discount",
        "agent.tau",
        "agent.policy_noise",
        "agent.noise_clip",
        "loop.exploration_noise",
    ]


def test_default_space_with_shapes_adds_layers_batch_size_and_n_step() -> None:
    added = default_space(CONFIG, shapes=True).keys() - default_space(CONFIG).keys()
    assert added == {"agent.hidden_sizes", "agent.batch_size", "agent.n_step"}


def test_default_space_includes_settings_of_variant() -> None:
    config = from_dict({"variant": "huber"}, CONFIG)
    found = default_space(config)["variant.delta"]
    assert (found.low, found.high, found.scale) == (0.1, 10.0, "log")


def test_search_file_narrows_extends_and_removes() -> None:
    tables = tomllib.loads(
        """
        [agent]
        discount = { low = 0.95, high = 0.99 }
        tau = false
        hidden_sizes = [[64, 64], [32, 32]]
        n_step = true
        [environment]
        reward_scale = { low = 0.1, high = 10, scale = "log" }
        """
    )
    space = {own.key: own for own in make_space(CONFIG, tables).parameters}
    assert (space["agent.discount"].low, space["agent.discount"].scale) == (0.95, "complement")
    assert "agent.tau" not in space
    assert space["agent.hidden_sizes"].choices == ((64, 64), (32, 32))
    assert space["agent.n_step"].choices == (1, 3)
    assert space["environment.reward_scale"].high == 10


def test_search_file_without_default_has_only_its_own_settings() -> None:
    space = make_space(CONFIG, {"default": False, "agent": {"tau": True}})
    assert [own.key for own in space.parameters] == ["agent.tau"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"agent": {"tua": True}}, "Unknown setting 'agent.tua'.*agent.tau"),
        ({"agent": {"tau": {"low": 0.1}}}, "must be true, false, a list"),
        ({"agent": {"tau": {"low": 0.1, "high": 0.05}}}, "must be less than high"),
        ({"agent": {"tau": {"low": 0.0, "high": 0.05}}}, "needs low above 0"),
        ({"agent": {"discount": {"low": 0.9, "high": 1}}}, "needs high below 1"),
        ({"agent": {"discount": {"low": 0.9, "high": 2}}}, "between 0 and 1"),
        ({"agent": {"tau": {"low": "a", "high": 1}}}, "must be numbers"),
        ({"agent": {"batch_size": {"low": 1, "high": 9}}}, "give a list"),
        ({"agent": {"batch_size": [0, 9]}}, "1 or more"),
        ({"agent": {"batch_size": ["a"]}}, "whole number"),
        ({"agent": {"batch_size": [9, 9]}}, "values that differ"),
        ({"agent": {"policy_freq": True}}, "declares no values to search; give a list"),
        ({"environment": {"reward_scale": True}}, "declares no range to search; give one"),
        ({"variant": {"delta": [1.0, 2.0]}}, "needs the variant that has it: --variant"),
        ({"agent": {"tau": {"low": 0.1, "high": 0.2, "scale": "x"}}}, "linear, log or complement"),
        ({"loop": {"steps": [1, 2]}}, "cannot be searched"),
        ({"seed": [1, 2]}, "cannot be searched"),
        ({"default": 3}, "true or false"),
        ({"default": False}, "empty"),
    ],
)
def test_wrong_search_file_is_refused_in_one_sentence(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_space(CONFIG, tables)


def test_settings_survive_the_study() -> None:
    space = make_space(CONFIG, {"agent": {"hidden_sizes": [[64, 64], [32]]}})
    stored = space.encode(CONFIG)
    assert stored is not None
    assert stored["agent.hidden_sizes"] == "64 64"
    decoded = space.decode(stored)
    assert decoded["agent.hidden_sizes"] == (64, 64)
    assert decoded["agent.discount"] == pytest.approx(CONFIG.agent.discount)


def test_settings_outside_the_space_are_not_encoded() -> None:
    assert make_space(CONFIG, {"agent": {"batch_size": [1, 2]}}).encode(CONFIG) is None


def test_complement_scale_is_logarithmic_in_the_distance_to_one() -> None:
    distribution: Any = Parameter("agent.discount", 0.9, 0.999, "complement").distribution()
    assert distribution.log
    assert (distribution.low, distribution.high) == pytest.approx((0.001, 0.1))

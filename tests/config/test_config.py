"""Settings: TOML and flags in, one sentence for what is wrong."""

import tomllib
from typing import Any

import pytest

from td3.config import ELSEWHERE, VARIABLE, Config, dotted, from_dict, setting_near, to_dict
from td3.config.checks import check
from td3.config.toml import to_toml
from td3.errors import UserError


def test_a_configuration_survives_toml() -> None:
    config = from_dict(
        {
            "environment": {
                "id": 'odd "name"\n',
                "kwargs": {"a": 1, "b c": True, "d": 0.5, "größe": "\U000e0001"},
            },
            "agent": {"hidden_sizes": [7], "tau": 1e-5},
            "track": ["wandb"],
        }
    )
    assert from_dict(tomllib.loads(to_toml(to_dict(config)))) == config


def test_whole_numbers_are_accepted_where_fractions_are_meant() -> None:
    assert from_dict({"agent": {"discount": 1}}).agent.discount == 1.0


def test_whole_numbers_may_have_an_exponent() -> None:
    steps = from_dict(tomllib.loads("[loop]\nsteps = 1e6")).loop.steps
    assert (steps, type(steps)) == (10**6, int)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"agent": {"batch_sise": 1}},
            "Unknown setting 'agent.batch_sise'. Did you mean 'agent.batch_size'?",
        ),
        ({"agent": {"gamma": 1}}, "Unknown setting 'agent.gamma'. Did you mean 'agent.discount'?"),
        ({"gamma": 0.9}, "Unknown setting 'gamma'. Did you mean 'agent.discount'?"),
        ({"GAMMA": 0.9}, "Unknown setting 'GAMMA'. Did you mean 'agent.discount'?"),
        ({"step": 9}, "Unknown setting 'step'. Did you mean 'loop.steps'?"),
        ({"agnt": {}}, "Unknown setting 'agnt'. Did you mean 'agent'?"),
        ({"agent": 3}, "agent is a table of settings, not 3."),
        ({"agent": {"batch_size": "x"}}, "agent.batch_size must be int, not 'x'."),
        ({"agent": {"batch_size": 2.5}}, "agent.batch_size must be int, not 2.5."),
        ({"agent": {"batch_size": True}}, "agent.batch_size must be int, not True."),
        ({"agent": {"hidden_sizes": 3}}, "agent.hidden_sizes must be"),
        ({"agent": {"hidden_sizes": ["a"]}}, "agent.hidden_sizes must be int, not 'a'."),
        ({"loop": {"update": "never"}}, "loop.update must be one of step, episode, not 'never'."),
        ({"track": ["mlflow"]}, "track must be one of tensorboard, wandb, not 'mlflow'."),
        ({"environment": {"kwargs": 1}}, "environment.kwargs must be"),
    ],
)
def test_a_wrong_table_is_named(tables: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        from_dict(tables)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agent.batch_size", 0),
        ("agent.policy_freq", 0),
        ("agent.actor_learning_rate", 0.0),
        ("agent.critic_learning_rate", float("nan")),
        ("agent.discount", 1.5),
        ("agent.tau", -0.1),
        ("agent.policy_noise", -1.0),
        ("agent.noise_clip", float("inf")),
        ("agent.hidden_sizes", []),
        ("agent.hidden_sizes", [0]),
        ("environment.count", 0),
        ("environment.reward_scale", 0.0),
        ("loop.steps", 0),
        ("loop.replay_size", 0),
        ("loop.random_steps", -1),
        ("loop.exploration_noise", -0.1),
        ("loop.log_every", 0),
        ("loop.updates_per_step", 0),
        ("evaluation.every", 0),
        ("evaluation.episodes", 0),
        ("evaluation.max_steps", 0),
        ("checkpoint.every", 0),
        ("seeds", 0),
        ("seed", -1),
        ("threads", -1),
        ("device", "tpu"),
        ("environment.id", ""),
    ],
)
def test_a_value_out_of_range_is_named(key: str, value: object) -> None:
    table, _, name = key.rpartition(".")
    tables: dict[str, object] = {"environment": {"id": "Pendulum-v1"}}
    if table == "environment":
        tables["environment"] = {"id": "Pendulum-v1", name: value}
    elif table:
        tables[table] = {name: value}
    else:
        tables[name] = value
    with pytest.raises(UserError) as caught:
        check(from_dict(tables))
    assert name in str(caught.value) or "environment" in str(caught.value)
    assert str(caught.value).endswith(".")


def test_the_defaults_are_the_papers() -> None:
    from td3.config import load_recipe

    paper = load_recipe("paper")
    assert (paper.agent, paper.loop, paper.evaluation) == (
        Config().agent,
        Config().loop,
        Config().evaluation,
    )


def grid(**values: object) -> Config:
    key, value = next(iter(values.items()))
    return from_dict(
        {"environment": {"id": "Pendulum-v1"}, "grid": {key.replace("__", "."): value}}
    )


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("loop__steps", [1, 2], "loop.steps cannot be varied in a grid; these can: agent.actor_le"),
        ("agent__tua", [1], "agent.tua cannot be varied in a grid; these can: "),
        ("agent__policy_freq", [1, 2], "agent.policy_freq cannot be varied in a grid;"),
        ("agent__discount", [0.9, 1.5], "agent.discount must lie between 0 and 1, not 1.5."),
        ("agent__tau", [float("nan")], "agent.tau must lie between 0 and 1, not nan."),
        ("environment__reward_scale", [0], "environment.reward_scale must be greater than 0, not"),
        ("agent__tau", [0.1, 0.2, 0.1], "The grid names agent.tau 0.1 twice."),
        ("agent__tau", [], "The grid names no value for agent.tau."),
        ("agent__tau", ["x"], "agent.tau must be float, not 'x'."),
        ("agent__tau", [True], "agent.tau must be float, not True."),
    ],
)
def test_a_grid_that_cannot_be_trained_is_refused(
    name: str, values: list[object], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        check(grid(**{name: values}))
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(".")


def test_what_is_not_a_grid_is_refused() -> None:
    with pytest.raises(UserError, match=r"grid must be dict, not 3\."):
        from_dict({"grid": 3})


def test_members_are_combinations_times_seeds() -> None:
    tables = {"agent.tau": [0.1, 0.2], "agent.discount": [0.9, 0.8, 0.7]}
    config = from_dict({"seed": 5, "seeds": 2, "grid": tables})
    assert config.agents == 12
    assert config.agent_seeds == [5, 6] * 6
    found = [config.member(agent) for agent in range(12)]
    assert [(m.agent.discount, m.agent.tau, m.seed) for m in found[:5]] == [
        (0.9, 0.1, 5),
        (0.9, 0.1, 6),
        (0.9, 0.2, 5),
        (0.9, 0.2, 6),
        (0.8, 0.1, 5),
    ]
    assert len({(m.agent.discount, m.agent.tau, m.seed) for m in found}) == 12
    assert all((m.agents, m.grid) == (1, {}) for m in found)
    # The order of the table's lines, which TOML does not promise, does not change who is who.
    backwards = from_dict({"seed": 5, "seeds": 2, "grid": dict(reversed(tables.items()))})
    assert [backwards.member(agent) for agent in range(12)] == found


def test_every_variable_setting_is_a_number_of_the_configuration() -> None:
    assert len(VARIABLE) == 8
    for key in VARIABLE:
        check(grid(**{key.replace(".", "__"): [0.25, 0.5]}))


@pytest.mark.parametrize("text", ['[grid]\n"agent.tau" = [0.1, 1]', "[grid]\nagent.tau = [0.1, 1]"])
def test_a_grid_survives_toml_with_and_without_quotes(text: str) -> None:
    config = from_dict(tomllib.loads(text))
    assert config.grid == {"agent.tau": (0.1, 1.0)}
    assert from_dict(tomllib.loads(to_toml(to_dict(config)))) == config


def test_without_a_grid_there_is_one_combination() -> None:
    config = from_dict({"seeds": 3})
    assert (config.combinations, config.agents, config.agent_seeds) == ([{}], 3, [0, 1, 2])


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"threads": 99_999_999_999}, "threads must be at most 1024, not 99999999999."),
        ({"loop": {"steps": 10**300}}, "loop.steps must be less than a million billion."),
    ],
)
def test_numbers_that_nobody_can_mean_are_refused(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        check(from_dict({"environment": {"id": "Pendulum-v1"}, **tables}))
    assert str(caught.value) == message


def test_what_others_call_a_setting_leads_to_a_setting() -> None:
    known = {key for key, _ in dotted(to_dict(Config()))}
    assert set(ELSEWHERE.values()) <= known
    assert [setting_near(name) for name in ELSEWHERE] == list(ELSEWHERE.values())
    assert setting_near("evaluation.evry") == "evaluation.every"
    assert setting_near("checkpoint.evry") == "checkpoint.every"
    assert setting_near("nonsense") == ""

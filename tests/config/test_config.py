"""Configurations: tables in and out, one sentence for each mistake."""

import tomllib
from typing import Any

import pytest

from td3.config import (
    ELSEWHERE,
    VARIABLE,
    Config,
    check,
    declared_settings,
    dotted,
    from_dict,
    load_recipe,
    setting_near,
    to_dict,
    to_toml,
    varied,
)
from td3.errors import UserError


def test_config_written_as_toml_reads_back_equal() -> None:
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


def test_optional_number_is_absent_from_toml_if_none_and_reads_back() -> None:
    assert Config().stop.at_return is None
    assert "at_return" not in to_toml(to_dict(Config()))
    config = from_dict({"stop": {"at_return": -200}})
    assert config.stop.at_return == -200.0
    assert from_dict(tomllib.loads(to_toml(to_dict(config)))) == config
    with pytest.raises(UserError, match=r"stop\.at_return must be a number, got 'x'\."):
        from_dict({"stop": {"at_return": "x"}})


def test_check_with_misspelt_exploration_suggests_the_name() -> None:
    config = varied(Config(), {"environment.id": "Pendulum-v1", "loop.exploration": "pnik"})
    with pytest.raises(UserError, match=r"got 'pnik'\. Did you mean 'pink'\?"):
        check(config)
    check(varied(config, {"loop.exploration": "my_module:MyNoise"}))


def test_float_setting_given_as_int_becomes_float() -> None:
    assert from_dict({"agent": {"discount": 1}}).agent.discount == 1.0


def test_int_setting_given_as_1e6_becomes_int() -> None:
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
        ({"agent": 3}, "agent must be a table of settings, got 3."),
        ({"agent": {"batch_size": "x"}}, "agent.batch_size must be a whole number, got 'x'."),
        ({"agent": {"batch_size": 2.5}}, "agent.batch_size must be a whole number, got 2.5."),
        ({"agent": {"batch_size": True}}, "agent.batch_size must be a whole number, got True."),
        ({"agent": {"hidden_sizes": 3}}, "agent.hidden_sizes must be a list, got 3."),
        ({"agent": {"hidden_sizes": ["a"]}}, "agent.hidden_sizes must be a whole number, got 'a'."),
        ({"loop": {"update": "never"}}, "loop.update must be one of step, episode, got 'never'."),
        ({"track": ["mlflow"]}, "track must be one of tensorboard, wandb, got 'mlflow'."),
        ({"environment": {"kwargs": 1}}, "environment.kwargs must be a table, got 1."),
    ],
)
def test_from_dict_with_bad_key_or_type_names_it(tables: dict[str, object], message: str) -> None:
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
        ("agent.final_learning_rate", 1.5),
        ("loop.final_exploration_noise", -0.1),
        ("loop.exploration", "louder"),
        ("stop.patience", -1),
        ("stop.at_return", float("nan")),
        ("stop.after", "2 hours"),
        ("environment.resize", -3),
        ("environment.patience", -1.0),
        ("environment.frame_stack", 101),
        ("agent.n_step", 101),
        ("agent.channels", []),
        ("device", "tpu"),
        ("environment.id", ""),
    ],
)
def test_check_with_value_out_of_range_names_setting(key: str, value: object) -> None:
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


def test_defaults_equal_recipe_paper() -> None:
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
        ("loop__steps", [1, 2], "A grid cannot vary loop.steps; it can vary: agent.actor_le"),
        ("agent__tua", [1], "A grid cannot vary agent.tua; it can vary: "),
        ("agent__policy_freq", [1, 2], "A grid cannot vary agent.policy_freq;"),
        ("agent__discount", [0.9, 1.5], "agent.discount must be between 0 and 1, got 1.5."),
        ("agent__tau", [float("nan")], "agent.tau must be between 0 and 1, got nan."),
        ("environment__reward_scale", [0], "environment.reward_scale must be greater than 0, got"),
        ("agent__tau", [0.1, 0.2, 0.1], "The grid has the value 0.1 of agent.tau twice."),
        ("agent__tau", [], "The grid has no value for agent.tau."),
        ("agent__tau", ["x"], "agent.tau must be a number, got 'x'."),
        ("agent__tau", [True], "agent.tau must be a number, got True."),
    ],
)
def test_check_with_bad_grid_raises(name: str, values: list[object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        check(grid(**{name: values}))
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(".")


def test_grid_of_wrong_type_raises() -> None:
    with pytest.raises(UserError, match=r"grid must be a table, got 3\."):
        from_dict({"grid": 3})


def test_members_are_all_combinations_with_all_seeds() -> None:
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
    # The order of lines in the TOML file does not change the numbering of the agents.
    backwards = from_dict({"seed": 5, "seeds": 2, "grid": dict(reversed(tables.items()))})
    assert [backwards.member(agent) for agent in range(12)] == found


def test_every_grid_setting_can_be_varied() -> None:
    assert len(VARIABLE) == 8
    for key in VARIABLE:
        check(grid(**{key.replace(".", "__"): [0.25, 0.5]}))


@pytest.mark.parametrize("text", ['[grid]\n"agent.tau" = [0.1, 1]', "[grid]\nagent.tau = [0.1, 1]"])
def test_grid_in_toml_with_or_without_quotes_reads_back_equal(text: str) -> None:
    config = from_dict(tomllib.loads(text))
    assert config.grid == {"agent.tau": (0.1, 1.0)}
    assert from_dict(tomllib.loads(to_toml(to_dict(config)))) == config


def test_config_without_grid_has_one_combination() -> None:
    config = from_dict({"seeds": 3})
    assert (config.combinations, config.agents, config.agent_seeds) == ([{}], 3, [0, 1, 2])


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"threads": 99_999_999_999}, "threads must be between 0 and 1024, got 99999999999."),
        ({"loop": {"steps": 10**300}}, "loop.steps must be at most 1e15."),
    ],
)
def test_check_with_huge_number_raises(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        check(from_dict({"environment": {"id": "Pendulum-v1"}, **tables}))
    assert str(caught.value) == message


def test_setting_near_finds_names_of_other_libraries() -> None:
    known = {key for key, _ in dotted(to_dict(Config()))}
    assert set(ELSEWHERE.values()) <= known
    assert [setting_near(name) for name in ELSEWHERE] == list(ELSEWHERE.values())
    assert setting_near("evaluation.evry") == "evaluation.every"
    assert setting_near("checkpoint.evry") == "checkpoint.every"
    assert setting_near("nonsense") == ""


def test_every_setting_declares_help_and_every_number_a_range() -> None:
    declared = declared_settings(Config)
    values = dict(dotted(to_dict(Config())))
    assert {key for key in values if key in declared} == set(values)
    for key, setting in declared.items():
        assert setting.help.endswith("."), key
        number = isinstance(values.get(key), int | float) and not isinstance(values[key], bool)
        assert bool(setting.range) == (number or key in ("agent.hidden_sizes", "agent.channels"))


def test_check_with_negative_resize_states_range_and_value() -> None:
    config = varied(Config(), {"environment.id": "Pendulum-v1", "environment.resize": -3})
    with pytest.raises(UserError) as caught:
        check(config)
    assert str(caught.value) == "environment.resize must be between 0 and 4096, got -3."


def test_help_text_contains_unit_range_and_reference_values() -> None:
    declared = declared_settings(Config)
    assert declared["agent.batch_size"].text == (
        "Transitions per update. [1 or more; authors' code: 256; paper: 100]"
    )
    assert declared["agent.noise_clip"].text.endswith(
        "[half the action range; 0 or more; authors' code and paper: 0.5]"
    )


def test_varied_changes_tables_and_top_level_settings() -> None:
    config = varied(Config(), {"loop.steps": 5, "loop.log_every": 2, "seed": 3})
    assert (config.loop.steps, config.loop.log_every, config.seed) == (5, 2, 3)
    assert config.loop.random_steps == Config().loop.random_steps

"""Settings: TOML and flags in, one sentence for what is wrong."""

import tomllib

import pytest

from td3.config import Config, check, from_dict, to_dict
from td3.errors import UserError
from td3.toml import to_toml


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


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"agent": {"batch_sise": 1}}, "Unknown setting 'agent.batch_sise'. Did you mean"),
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
        ("agent.batch_size", 0), ("agent.policy_freq", 0), ("agent.actor_learning_rate", 0.0),
        ("agent.critic_learning_rate", float("nan")), ("agent.discount", 1.5), ("agent.tau", -0.1),
        ("agent.policy_noise", -1.0), ("agent.noise_clip", float("inf")),
        ("agent.hidden_sizes", []), ("agent.hidden_sizes", [0]), ("environment.count", 0),
        ("environment.reward_scale", 0.0), ("loop.steps", 0), ("loop.replay_size", 0),
        ("loop.random_steps", -1), ("loop.exploration_noise", -0.1), ("loop.log_every", 0),
        ("loop.updates_per_step", 0), ("evaluation.every", 0), ("evaluation.episodes", 0),
        ("evaluation.max_steps", 0), ("checkpoint.every", 0), ("seeds", 0), ("seed", -1),
        ("threads", -1), ("device", "tpu"), ("environment.id", ""),
    ],
)  # fmt: skip
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

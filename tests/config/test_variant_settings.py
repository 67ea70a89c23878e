"""The variant in a configuration: names, settings, mistakes."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from td3.algorithm.agent import TD3
from td3.algorithm.variants.ensemble import EnsembleSettings, EnsembleTD3
from td3.algorithm.variants.huber import HuberSettings, HuberTD3
from td3.cli import main
from td3.config import Config, VariantSettings, check, from_dict, load_recipe, to_dict, to_toml
from td3.config.variants import BUILT_IN, load_variant, settings_of, variant_name
from td3.errors import UserError

TASK = {"environment": {"id": "Pendulum-v1"}}


class Own(TD3):
    @dataclass(frozen=True)
    class Settings(VariantSettings):
        strength: float = 0.5
        count: int = 3


class NeedsValue(TD3):
    @dataclass(frozen=True)
    class Settings:
        strength: float


class WithoutDefault(TD3):
    @dataclass(frozen=True, kw_only=True)
    class Settings(VariantSettings):
        strength: float


OWN = f"{__name__}:Own"


@pytest.mark.parametrize("name", BUILT_IN)
def test_builtin_variant_is_found_by_name_and_class(name: str) -> None:
    found = load_variant(name)
    assert variant_name(found) == name
    assert from_dict({"variant": name}) == from_dict({"variant": found})
    assert from_dict({"variant": name}).variant.name == name


def test_plain_td3_has_no_name_and_no_table() -> None:
    assert load_variant("") is TD3
    assert variant_name(TD3) == ""
    assert "variant" not in to_dict(Config())
    assert to_dict(from_dict({"variant": TD3})) == to_dict(Config())


def test_own_class_is_found_by_module_and_class() -> None:
    assert variant_name(Own) == OWN
    assert load_variant(OWN) is Own
    assert settings_of(OWN) == Own.Settings(name=OWN)


def test_variant_table_sets_its_settings_and_survives_toml() -> None:
    config = from_dict({"variant": {"name": OWN, "strength": 2}})
    assert config.variant == Own.Settings(name=OWN, strength=2.0)
    assert to_dict(config)["variant"] == {"name": OWN, "strength": 2.0, "count": 3}
    assert from_dict(tomllib.loads(to_toml(to_dict(config)))) == config


def test_other_variant_drops_the_settings_of_the_first() -> None:
    huber = from_dict({"variant": {"name": "huber", "delta": 3.0}})
    assert from_dict({"variant": {"name": "huber"}}, huber) == huber
    ensemble = from_dict({"variant": "ensemble"}, huber)
    assert ensemble.variant == EnsembleSettings(name="ensemble")


def test_grid_may_vary_a_float_of_the_variant() -> None:
    config = from_dict({**TASK, "variant": OWN, "grid": {"variant.strength": (0.1, 0.2)}})
    assert check(config).combinations == [{"variant.strength": 0.1}, {"variant.strength": 0.2}]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown name": (
        {"variant": "hubre"},
        r"There is no variant 'hubre'\. Did you mean 'huber'\? Built in: ensemble, .* module:Class",
    ),
    "no such module": (
        {"variant": "no_such_module:Own"},
        r"Cannot import the variant no_such_module:Own: .*No module named 'no_such_module'",
    ),
    "no such class": (
        {"variant": f"{__name__}:Missing"},
        r"has no class Missing; it has: Own, NeedsValue, WithoutDefault\.",
    ),
    "defined in a function": (
        {"variant": "a_module:make.<locals>.Own"},
        r"cannot be imported\. Continue with td3\.resume\(folder, variant=Own\)",
    ),
    "defined in a script": (
        {"variant": "__main__:Own"},
        r"was defined in a script, .* Continue with td3\.resume\(folder, variant=Own\)",
    ),
    "no subclass": ({"variant": "pathlib:Path"}, r"pathlib:Path is not a subclass of td3\.TD3"),
    "no class": ({"variant": "pathlib:os"}, r"pathlib:os is not a subclass of td3\.TD3"),
    "an instance's type": ({"variant": dict}, r"dict is not a subclass of td3\.TD3"),
    "settings of another kind": (
        {"variant": f"{__name__}:NeedsValue"},
        r"NeedsValue\.Settings must be a dataclass that extends td3\.VariantSettings",
    ),
    "settings without defaults": (
        {"variant": f"{__name__}:WithoutDefault"},
        r"The settings of the variant .*:WithoutDefault need defaults: .*strength",
    ),
    "unknown setting": (
        {"variant": {"name": "huber", "dleta": 1}},
        r"Unknown setting 'variant\.dleta'\. Did you mean 'delta'\?",
    ),
    "setting of plain TD3": ({"variant": {"delta": 1}}, r"Unknown setting 'variant\.delta'"),
    "wrong type": (
        {"variant": {"name": "huber", "delta": "big"}},
        r"variant\.delta must be a number, got 'big'",
    ),
    "out of range": (
        {"variant": {"name": "huber", "delta": 0}},
        r"variant\.delta must be greater than 0, got 0",
    ),
    "no table": ({"variant": 3}, r"variant must be a table of settings, got 3"),
    "grid over a whole number": (
        {"variant": OWN, "grid": {"variant.count": (1, 2)}},
        r"A grid cannot vary variant\.count: .* which has: variant\.strength\.",
    ),
    "grid of plain TD3": (
        {"grid": {"variant.delta": (1.0, 2.0)}},
        r"A grid cannot vary variant\.delta: .* of plain TD3, which has: none\.",
    ),
    "grid value out of range": (
        {"variant": "huber", "grid": {"variant.delta": (-1.0, 2.0)}},
        r"variant\.delta must be greater than 0, got -1\.0",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_variant_is_one_sentence(wrong: str) -> None:
    tables, message = WRONG[wrong]
    with pytest.raises(UserError, match=message) as refused:
        check(from_dict({**TASK, **tables}))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("words", [["--variant"], ["--variant", "--seeds", "2"]])
def test_variant_flag_without_value_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "Pendulum-v1", *words]) == 2
    assert capsys.readouterr().err == "td3: --variant needs a value, e.g. --variant huber.\n"


def test_settings_of_the_variant_are_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "Pendulum-v1", "--variant", "huber", "--variant.delta", "-1"]) == 2
    assert "variant.delta must be greater than 0, got -1" in capsys.readouterr().err
    assert main(["train", "Pendulum-v1", "--variant.delta", "1"]) == 2
    assert "Unknown option --variant.delta." in capsys.readouterr().err


def test_help_lists_the_settings_of_the_variant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--variant", "huber", "--help"]) == 0
    assert "--variant.delta" in capsys.readouterr().out


def test_recipe_with_a_variant_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[environment]\nid = "Pendulum-v1"\n[variant]\nname = "huber"\ndelta = 0.25\n')
    config = load_recipe(str(path))
    assert config.variant == HuberSettings(name="huber", delta=0.25)
    assert load_variant(config.variant.name) is HuberTD3
    path.write_text('variant = "ensemble"\n')
    assert load_variant(load_recipe(str(path)).variant.name) is EnsembleTD3

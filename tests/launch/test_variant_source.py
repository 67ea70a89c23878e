"""Which changes of code a run notices, and how resume refuses them."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import td3
from td3.algorithm.variants.huber import HuberTD3
from td3.launch.variant_source import check_code, code_facts

SOURCE = """
import dataclasses

import td3

FACTOR = 2.0
POWER = 1


@dataclasses.dataclass
class Base:
    offset: float = 0.5

    def shift(self, value):
        return value + self.offset


class Model(Base):
    def __call__(self, value):
        return Model.power(self.shift(value))

    @staticmethod
    def power(value):
        return value**POWER


def scale(value):
    return FACTOR * value


def unused(value):
    return value


class Scaled(td3.TD3):
    extra = 1

    def critic_loss(self, values, target_q):
        return Model()(scale(super().critic_loss(values, target_q)))
"""


@pytest.fixture
def facts_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    """A function that returns the facts of the class in a module with this source."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    numbers = iter(range(100))

    def find(source: str) -> dict[str, str]:
        name = f"scaled_{next(numbers)}"
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        kind = importlib.import_module(name).Scaled
        del sys.modules[name]
        return code_facts(name, [kind(3, 1, hidden_sizes=(4, 4), seed=0)])

    return find


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return Model()(", "return -Model()("),
        ("extra = 1", "extra = 2"),
        ("FACTOR = 2.0", "FACTOR = 3.0"),
        ("return FACTOR * value", "return value"),
        ("self.shift(value)", "value"),
        ("return value**POWER", "return value"),
        ("POWER = 1", "POWER = 2"),
        ("value + self.offset", "value - self.offset"),
        ("offset: float = 0.5", "offset: float = 0.25"),
    ],
)
def test_code_facts_change_with_what_the_class_uses(old: str, new: str, facts_of: Any) -> None:
    before, after = facts_of(SOURCE), facts_of(SOURCE.replace(old, new))
    assert before["class"] == after["class"] == "Scaled"
    assert before["sha256"] != after["sha256"]


def test_code_facts_ignore_what_the_class_does_not_use(facts_of: Any) -> None:
    changed = SOURCE.replace("return value\n", "return 2 * value\n") + "\nOTHER = 1\n"
    assert facts_of(SOURCE)["sha256"] == facts_of(changed)["sha256"]


def test_code_facts_of_this_package_are_empty_or_have_no_source_of_it() -> None:
    plain = td3.TD3(3, 1, hidden_sizes=(4, 4), seed=0)
    assert code_facts("", [plain]) == {}
    huber = HuberTD3(3, 1, hidden_sizes=(4, 4), seed=0)
    facts = code_facts("huber", [huber])
    assert facts["sha256"] == code_facts("huber", [huber, plain])["sha256"]


def test_code_facts_notice_a_patched_method(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = td3.TD3(3, 1, hidden_sizes=(4, 4), seed=0)
    monkeypatch.setattr(td3.TD3, "actor_loss", lambda self, state: -super().actor_loss(state))
    assert code_facts("", [agent])["class"] == "TD3"


MINE = {"module": "mine", "class": "Mine", "sha256": "a"}


@pytest.mark.parametrize(
    ("now", "before", "message"),
    [
        ({}, MINE, r"changed methods \(mine:Mine\), which this process does not have"),
        (MINE, {}, "plain TD3, and methods of mine:Mine are changed now"),
        ({**MINE, "class": "Other"}, MINE, "the class mine:Mine, not with mine:Other"),
        ({**MINE, "sha256": "b"}, MINE, "the source of mine:Mine, or of what it uses, has changed"),
    ],
)
def test_check_code_refuses_other_code(now: Any, before: Any, message: str) -> None:
    with pytest.raises(td3.UserError, match=message):
        check_code(now, before, Path("runs/a"))
    check_code(before, before, Path("runs/a"))

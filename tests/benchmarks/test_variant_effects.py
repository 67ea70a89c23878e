"""The measured effect of the built-in variants: table and docstrings agree with stored returns."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.td3_bench.markdown import replace_generated
from benchmarks.variant_effects import (
    NOTE,
    PAGE,
    STORED,
    VARIANTS,
    describe_effect,
    effect_table,
    learning_of,
    load,
    store,
)
from td3.config.variants import load_variant


def test_page_of_variants_is_made_from_the_stored_returns() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert replace_generated(text, effect_table(load(STORED)), NOTE) == text


@pytest.mark.parametrize("variant", VARIANTS[1:])
def test_docstring_of_a_variant_states_its_measured_effect(variant: str) -> None:
    found = load(STORED)
    assert len(found[variant]) == len(found["td3"]) == 10
    effect = describe_effect(learning_of(found[variant]), learning_of(found["td3"]))
    figures, _, verdict = effect.partition(", ")
    text = " ".join((load_variant(variant).__doc__ or "").split())
    assert figures in text
    assert ("no significant difference" in text) == bool(verdict)


def test_store_of_returns_loads_the_same(tmp_path: Path) -> None:
    returns = {"td3": np.array([[1.5, 2.25]]), "lap": np.array([[0.0, -3.0]])}
    store(returns, tmp_path / "effects.csv")
    found = load(tmp_path / "effects.csv")
    assert found.keys() == returns.keys()
    for variant, values in returns.items():
        np.testing.assert_array_equal(found[variant], values)


def test_effect_is_significant_if_its_interval_excludes_zero() -> None:
    plain = np.array([0.0, 1.0, 2.0])
    assert describe_effect(plain + np.array([9.0, 10.0, 11.0]), plain) == "+10 (+8 to +12)"
    assert describe_effect(plain + np.array([-1.0, 0.0, 1.0]), plain).endswith(
        "no significant difference"
    )

"""A policy loads fast, in little memory, and without the libraries that it does not need."""

from pathlib import Path
from typing import Any

from benchmarks.policy_load import measure
from td3.policy.pretrained import names, pretrained


def test_load_policy_stock_policy_needs_neither_torch_nor_gymnasium() -> None:
    found = min((measure(str(pretrained("HalfCheetah-v5"))) for _ in range(3)), key=seconds)
    assert not found["torch"]
    assert not found["gymnasium"]
    assert found["peak_mb"] < 60
    assert found["seconds"] < 0.3
    assert found["action_us"] < 40  # 12 on an idle core; the tests share theirs


def test_pretrained_policies_are_all_stock() -> None:
    """A variant's policy or one for images would need PyTorch."""
    for name in names():
        data = Path(pretrained(name)).read_bytes()[:4000]
        assert b'\\"variant\\"' not in data
        assert b'\\"image\\"' not in data


def seconds(found: dict[str, Any]) -> float:
    return float(found["seconds"])

"""A policy loads fast, in little memory, and without the libraries that it does not need."""

from pathlib import Path

from benchmarks.policy_load import measure
from td3.policy.pretrained import names, pretrained


def test_load_policy_stock_policy_needs_neither_torch_nor_gymnasium() -> None:
    rounds = [measure(str(pretrained("HalfCheetah-v5"))) for _ in range(3)]
    found = min(rounds, key=lambda own: float(own["processor_seconds"]))
    assert not found["torch"]
    assert not found["gymnasium"]
    assert found["peak_mb"] < 60
    assert found["processor_seconds"] < 0.3  # not the clock: other tests share the cores
    assert found["action_us"] < 40  # 12 on an idle core; the tests share theirs


def test_pretrained_policies_are_all_stock() -> None:
    """A variant's policy or one for images would need PyTorch."""
    for name in names():
        data = Path(pretrained(name)).read_bytes()[:4000]
        assert b'\\"variant\\"' not in data
        assert b'\\"image\\"' not in data

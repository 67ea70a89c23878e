"""Run folders that the documentation refers to still open."""

from pathlib import Path

from td3.policy.load import policies_of
from td3.report.summary import read_run

RUN = Path(__file__).parents[2] / "benchmarks/results/halfcheetah-v5-100k"


def test_stored_run_opens_with_its_policies() -> None:
    assert [policy.environment.id for policy in policies_of(RUN)] == ["HalfCheetah-v5"] * 3
    assert sorted(read_run(RUN).evaluations) == [0, 1, 2]

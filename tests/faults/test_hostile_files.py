"""Files that somebody made to do harm are refused: one sentence, 2 seconds, 100 MB."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.bounded import Bounded
from support.hostile_policies import CASES as POLICIES
from support.run_tools import tiny, train_in_pieces

from td3.policy.file import read_policy_file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "run"
    config = tiny(agent={"hidden_sizes": [8, 8]}, loop={"steps": 200}, threads=1)
    train_in_pieces(config, folder, [])
    return folder


@pytest.fixture(scope="module")
def td3(run: Path) -> Iterator[Bounded]:
    policy = str(run / "policy/agent-0.safetensors")
    warm = [
        ["evaluate", policy, "--episodes", "1"],
        ["evaluate", policy, "--episodes", "1", "--json"],
    ]
    with Bounded(warm) as program:
        yield program


@pytest.mark.parametrize("name", POLICIES)
def test_hostile_policy_is_refused(name: str, run: Path, td3: Bounded, tmp_path: Path) -> None:
    card, arrays = read_policy_file(run / "policy/agent-0.safetensors")
    POLICIES[name](tmp_path / "policy.safetensors", card, arrays)
    outcome = td3.run(["evaluate", "policy.safetensors", "--episodes", "1"], str(tmp_path))
    assert not outcome.problem()

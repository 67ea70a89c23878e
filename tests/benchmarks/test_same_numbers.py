"""The comparison of two checkouts finds any difference in numbers."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from benchmarks.same_numbers import find_differences


def write_run(folder: Path, weight: float = 1.0, metrics: str = "{}\n") -> Path:
    (folder / "policy").mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(metrics, encoding="utf-8")
    tensors = {"actor.layer_1.weight": np.full(3, weight)}
    save_file(tensors, folder / "policy" / "agent-0.safetensors", {"card": folder.name})
    return folder


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"weight": 1.0 + 1e-12}, ["policy/agent-0.safetensors"]),
        ({"metrics": "{} \n"}, ["metrics.jsonl"]),
    ],
)
def test_find_differences_names_files_with_other_numbers(
    changes: dict[str, object], expected: list[str], tmp_path: Path
) -> None:
    one = write_run(tmp_path / "one")
    assert find_differences(one, write_run(tmp_path / "other", **changes)) == expected  # type: ignore[arg-type]


def test_find_differences_names_missing_files(tmp_path: Path) -> None:
    one, other = write_run(tmp_path / "one"), write_run(tmp_path / "other")
    (other / "policy" / "agent-0.safetensors").unlink()
    assert find_differences(one, other) == ["policy/agent-0.safetensors"]

"""ONNX and torch.export compute what the other formats compute."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from support.policies import ACTIONS, POSITION, SPACES, make_policy

from td3.errors import UserError
from td3.exports.check import check_export
from td3.exports.export import Export, make_export
from td3.exports.graph_runtime import TABLE, Policy, open_onnx
from td3.exports.runtime import selftest

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")
FORMATS = {"onnx": "policy.onnx", "torch": "policy.pt2"}
CHOSEN = ("box", "stacked choices", "stacked dictionary", "grey floats", "image and numbers")


def write(folder: Path, name: str, *formats: str) -> Export:
    space, stack = SPACES[name]
    policy, _ = make_policy(space, stack, normalize="image" not in name)
    export = make_export(policy, formats or list(FORMATS), 50)
    export.write(folder)
    return export


@pytest.mark.parametrize("name", CHOSEN)
def test_graphs_of_any_space_agree_with_recorded_actions(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = write(tmp_path, name)
    assert np.ptp(export.vectors.actions, axis=0).min() > 1e-4  # the actions differ
    for file in FORMATS.values():
        policy = Policy(str(tmp_path / file))
        assert selftest(policy, tmp_path / "policy_vectors.bin") == 0, capsys.readouterr().out


def test_graph_reads_observations_and_keeps_frames_as_numpy_does(tmp_path: Path) -> None:
    export = write(tmp_path, "stacked dictionary")
    space, _ = SPACES["stacked dictionary"]
    space.seed(1)
    observations = [space.sample() for _ in range(4)]
    bad = [{"goal": np.float32([0, np.nan, 0]), "mode": 1}, {"goal": np.zeros(3), "mode": 3}]
    played = [*bad, *observations[:2], *bad, *observations[2:]]
    for file in FORMATS.values():
        policy, twin = Policy(str(tmp_path / file)), export.runtime
        twin.reset()
        for observation in played:
            action = policy(observation)
            assert action.dtype == np.float32
            assert action == pytest.approx(twin(observation), abs=1e-6)
            assert policy.ok == twin.ok
            if not policy.ok:
                assert action == pytest.approx(np.clip(0, ACTIONS.low, ACTIONS.high))
        with pytest.raises(ValueError, match=r"observation.goal has the shape \(2,\), not \[3\]"):
            policy({"goal": np.zeros(2), "mode": 1})


def test_onnx_file_takes_batches_and_describes_itself(tmp_path: Path) -> None:
    write(tmp_path, "box", "onnx")
    text, run = open_onnx(str(tmp_path / "policy.onnx"))
    observations = np.random.default_rng(0).normal(size=(7, 2, 3)).astype(np.float32)
    observations[3, 1, 1] = np.inf
    actions, ok = run([observations])
    assert ok.tolist() == [True, True, True, False, True, True, True]
    single = Policy(str(tmp_path / "policy.onnx"))
    assert [single(observation) for observation in observations] == pytest.approx(actions)
    table = json.loads(text)
    assert table["facts"]["task"] == "Some-v0"
    assert table["inputs"][0]["shape"] == [2, 3]
    assert TABLE == "policy.json"


def test_graph_selftests_run_as_programs(tmp_path: Path) -> None:
    space, _ = SPACES["box"]
    policy, _ = make_policy(space)
    checks = check_export(make_export(policy, list(FORMATS), 50))
    assert [check.name for check in checks] == list(FORMATS)
    for check in checks:
        assert check.passed, check


def test_onnx_without_its_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"ONNX needs an extra: pip install 'td3\[export\]'"):
        make_export(make_policy(POSITION)[0], ["onnx"])

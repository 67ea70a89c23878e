"""ONNX and torch.export compute what the other formats compute."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gymnasium import spaces
from support.policies import ACTIONS, POSITION, SPACES, exact_actions, make_policy

import td3
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


class NormalizedActor(td3.Actor):
    def forward(self, state: torch.Tensor) -> torch.Tensor:
        *hidden, (weight, bias) = self.layers(self.flat)
        for own_weight, own_bias in hidden:
            state = torch.baddbmm(own_bias, state, own_weight)
            state = F.silu(F.layer_norm(state, state.shape[-1:]))
        return torch.tanh(torch.baddbmm(bias, state, weight))


class OwnActor(td3.TD3):
    def make_actor(self, inputs: int, **shared: Any) -> td3.Actor:
        sizes = inputs, self.action_dim, self.max_action, self.hidden_sizes
        return NormalizedActor(*sizes, **shared)


class UnknownActions(OwnActor):
    def act(self, states: torch.Tensor) -> torch.Tensor:
        action = super().act(states)
        return action if float(action.sum()) > 0 else -action


def test_variant_with_its_own_actor_becomes_a_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = spaces.Dict(goal=POSITION, mode=spaces.Discrete(3))
    policy, exact = make_policy(space, 2, normalize=True, kind=OwnActor)
    export = make_export(policy, list(FORMATS), 50)
    states = [
        np.concatenate([export.runtime.read_vector(frame) for frame in frames])
        for frames in export.vectors.observations
    ]
    expected = exact_actions(policy, exact, np.array(states, np.float32))
    # The agent of the export computes the statistics in double precision too.
    assert export.vectors.actions == pytest.approx(expected, abs=1e-6)
    assert np.ptp(expected, axis=0).min() > 1e-4
    export.write(tmp_path)
    for file in FORMATS.values():
        graph = Policy(str(tmp_path / file))
        assert selftest(graph, tmp_path / "policy_vectors.bin") == 0, capsys.readouterr().out


def test_export_refuses_what_a_variant_cannot_become() -> None:
    policy, _ = make_policy(POSITION, kind=OwnActor)
    with pytest.raises(UserError, match=r"class test_graphs:OwnActor, which c and numpy cannot"):
        make_export(policy, ["c", "torch", "numpy"])
    policy, _ = make_policy(*SPACES["image"], kind=OwnActor)
    with pytest.raises(UserError, match=r"which onnx cannot contain. Export it with --to torch\."):
        make_export(policy, ["onnx"])
    policy, _ = make_policy(POSITION, kind=UnknownActions)
    with pytest.raises(UserError, match=r"PyTorch cannot export UnknownActions: "):
        make_export(policy, ["torch"])


def test_hub_repository_of_a_variant_has_the_formats_that_can_hold_it() -> None:
    policy, _ = make_policy(POSITION, kind=OwnActor)
    files = make_export(policy, ["hub"], 50).files
    assert {"README.md", "policy.onnx", "policy.pt2", "policy.safetensors"} <= files.keys()
    assert not {"policy.c", "policy.py", "policy.mjs"} & files.keys()

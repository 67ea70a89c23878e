"""Write a policy in other formats, with test vectors and self-tests."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from td3 import __version__
from td3.environments.factories import Factory
from td3.errors import UserError, nearest
from td3.exports.c import write_c
from td3.exports.graph_files import write_onnx, write_torch
from td3.exports.hub import Repository, hub_files
from td3.exports.interpreted import write_js, write_numpy
from td3.exports.pack import program_json
from td3.exports.program import Program, policy_program
from td3.exports.runtime import Policy as Runtime
from td3.exports.runtime import unpack
from td3.exports.vectors import VECTORS, Vectors, make_vectors
from td3.files import check_output, make_writable, replace_file
from td3.policy.policy import Policy

WRITERS: dict[str, Callable[[Program], Mapping[str, str | bytes]]] = {
    "numpy": write_numpy,
    "c": write_c,
    "js": write_js,
    "onnx": write_onnx,
    "torch": write_torch,
}
FORMATS = (*WRITERS, "hub")
VECTORS_FILE = "policy_vectors.bin"


class Export(NamedTuple):
    """A policy in other formats, not yet written."""

    files: dict[str, bytes]
    runtime: Runtime
    vectors: Vectors
    rounding: float
    """How far td3's own actions, in float32, are from the exact ones: share of the range."""

    def write(self, folder: Path) -> list[Path]:
        """Write all files into one folder."""
        paths = [folder / name for name in self.files]
        for path in paths:
            check_output(path)
        make_writable(folder)
        for path in paths:
            replace_file(path, self.files[path.name])
        return paths


def make_export(
    policy: Policy,
    formats: Sequence[str],
    count: int = VECTORS,
    repository: Repository = Repository(),  # noqa: B008  it is immutable
    environment: "str | Factory" = "",
) -> Export:
    """Translate a policy into these formats, with `count` test vectors; files hold the first 1,000.

    `hub` is a model repository with all other formats; `repository` describes it.
    `environment`: the task to play instead of the one in the policy file.
    Raises UserError if a format is not known or cannot hold the policy.
    """
    for name in formats:
        if name not in FORMATS:
            known = ", ".join(FORMATS)
            raise UserError(f"No format {name!r}.{nearest(name, FORMATS)} There are: {known}.")
    if not formats:
        raise UserError(f"Name a format to export to: {', '.join(FORMATS)}.")
    program = policy_program(policy, policy_facts(policy))
    hub = "hub" in formats
    formats = chosen_formats(policy, program, formats)
    runtime = make_runtime(program)
    vectors = make_vectors(policy, program, runtime, count, environment=environment)
    rounding = float32_error(policy, runtime, vectors)
    files: dict[str, bytes] = {}
    for name in formats:
        for file, content in WRITERS[name](program).items():
            files[file] = content.encode() if isinstance(content, str) else content
    files[VECTORS_FILE] = vectors.first(VECTORS).to_bytes()
    if hub:
        files = {**hub_files(policy, repository, files, environment), **files}
    return Export(files, runtime, vectors, rounding)


def chosen_formats(policy: Policy, program: Program, formats: Sequence[str]) -> Sequence[str]:
    """The formats to write; all that can hold the policy, for a model repository."""
    if program.agent is None:
        return list(WRITERS) if "hub" in formats else formats
    # onnxruntime has no convolution in double precision.
    possible = ("torch",) if program.has_images else ("onnx", "torch")
    if refused := sorted(set(formats) - {*possible, "hub"}):
        raise UserError(
            f"The policy {policy.name} acts with the class {policy.card['variant']['name']}, which "
            f"{' and '.join(refused)} cannot contain. Export it with --to {' or '.join(possible)}."
        )
    return possible if "hub" in formats else formats


def make_runtime(program: Program) -> Runtime:
    """The program in double precision."""
    if program.agent is None:
        return Runtime(unpack(json.loads(program_json(program))))
    from td3.exports.graph import AgentRuntime

    return AgentRuntime(program)


def policy_facts(policy: Policy) -> dict[str, Any]:
    """Where a policy comes from, for the header of each file."""
    facts = {
        "task": policy.environment.id,
        "policy": policy.name,
        "step": policy.step,
        "mean_return": policy.card.get("mean_return"),
        "sha256": policy.card.get("sha256"),
        "td3": __version__,
    }
    return {key: value for key, value in facts.items() if value is not None}


def float32_error(policy: Policy, runtime: Runtime, vectors: Vectors) -> float:
    """The largest difference between td3's float32 actions and the exact ones.

    Raises UserError if they are not the same policy.
    """
    span = np.maximum(policy.bounds.high - policy.bounds.low, 1e-300)
    largest = 0.0
    for frames, action in zip(vectors.observations, vectors.actions, strict=True):
        state = np.concatenate([runtime.read_vector(frame) for frame in frames])
        found = policy.bounds.scale(policy.act(state.astype(np.float32))).ravel()
        largest = max(largest, float(np.abs((found - action) / span).max()))
    if not largest < 1e-3:
        raise UserError(
            f"The export of {policy.name} would differ from td3 by {largest:.1e} of the action "
            "range. This is a bug: please report it."
        )
    return largest

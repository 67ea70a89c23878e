"""A program as JSON, for the formats that interpret it: NumPy and JavaScript."""

import base64
import dataclasses
import json
from typing import Any

import numpy as np

from td3.exports.program import Array, Program, Step


def program_table(program: Program) -> dict[str, Any]:
    """The program as dictionaries, lists and arrays, as `runtime.Policy` runs it."""
    return {
        "facts": program.facts,
        "inputs": [dataclasses.asdict(part) for part in program.inputs],
        "stack": program.stack,
        "state_size": program.state_size,
        "steps": [step_table(step) for step in program.steps],
        "low": program.low.tolist(),
        "high": program.high.tolist(),
        "shape": program.shape,
        "dtype": program.dtype,
    }


def step_table(step: Step) -> dict[str, Any]:
    branches = [[index, [step_table(own) for own in steps]] for index, steps in step.branches]
    return {
        "op": step.op,
        **step.arrays,
        **step.facts,
        **({"branches": branches} if branches else {}),
    }


def program_json(program: Program) -> str:
    """The same as text: arrays are little-endian float32 or int32 in base64."""
    return json.dumps(program_table(program), default=pack)


def pack(array: Array) -> dict[str, Any]:
    dtype = "<f4" if array.dtype.kind == "f" else "<i4"
    data = np.ascontiguousarray(array, dtype=dtype).tobytes()
    return {"base64": base64.b64encode(data).decode(), "dtype": dtype, "sides": list(array.shape)}

"""The formats that are graphs: ONNX and torch.export, and a Python file that runs them."""

import inspect
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from td3.errors import UserError, first_line
from td3.exports import graph_runtime, runtime
from td3.exports.pack import program_table
from td3.exports.program import Program

if TYPE_CHECKING:
    from torch.export import ExportedProgram

OPSET, IR_VERSION = 18, 8  # onnxruntime 1.14 and newer
SHARED = "from td3.exports.runtime import selftest"


def write_torch(program: Program) -> dict[str, str | bytes]:
    """policy.pt2 and the file that runs it."""
    import torch

    buffer = io.BytesIO()
    with quiet():
        torch.export.save(
            traced(program), buffer, extra_files={graph_runtime.TABLE: table_json(program)}
        )
    return {"policy.pt2": buffer.getvalue(), "policy_graph.py": graph_source()}


def write_onnx(program: Program) -> dict[str, str | bytes]:
    """policy.onnx and the file that runs it."""
    try:
        import onnx
        import onnxscript  # noqa: F401  torch.onnx needs it
    except ImportError as error:
        raise UserError("ONNX needs an extra: pip install 'td3[export]'") from error
    import torch

    outputs = ["action", "ok", *(["next_frames"] if program.stack > 1 else [])]
    inputs = [part.name for part in program.inputs]
    inputs += ["frames"] if program.stack > 1 else []
    with quiet():
        made: Any = torch.onnx.export(
            traced(program),
            input_names=inputs,
            output_names=outputs,
            dynamo=True,
            opset_version=OPSET,
            verbose=False,
            external_data=False,
        )
        model = made.model_proto
    model.ir_version = IR_VERSION
    model.producer_name, model.doc_string = "td3", "A policy. Written by td3 export --to onnx."
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, {graph_runtime.TABLE: table_json(program)})
    onnx.checker.check_model(model, full_check=True)
    return {"policy.onnx": model.SerializeToString(), "policy_graph.py": graph_source()}


def traced(program: Program) -> "ExportedProgram":
    """The program for batches of any length."""
    import torch

    from td3.exports.graph import Graph

    graph = Graph(program).eval()
    example = graph.example(2)
    batch = torch.export.Dim("batch")
    first = {0: batch}
    shapes: tuple[Any, ...] = (dict.fromkeys(example[0], first), *[first] * (len(example) - 1))
    try:
        with torch.no_grad():
            return torch.export.export(graph, example, dynamic_shapes=shapes)
    except Exception as error:
        if program.agent is None:
            raise
        name = type(program.agent).__name__
        raise UserError(f"PyTorch cannot export {name}: {first_line(error)}.") from error


def table_json(program: Program) -> str:
    """What the file that runs a graph must know; the graph has the steps."""
    return json.dumps({**program_table(program), "steps": []})


def graph_source() -> str:
    """The source of `graph_runtime.py`, with the self-test that all formats share."""
    source = Path(graph_runtime.__file__).read_text(encoding="utf-8")
    shared = f"TOLERANCE = {runtime.TOLERANCE!r}\n\n\n{inspect.getsource(runtime.selftest)}"
    return source.replace(SHARED, shared.rstrip())


@contextmanager
def quiet() -> Iterator[None]:
    """Hide what torch.export and torch.onnx report about themselves."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)

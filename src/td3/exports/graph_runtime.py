"""Run policy.onnx or policy.pt2. Written by `td3 export --to onnx` and `--to torch`.

    policy = Policy("policy.onnx")    # needs onnxruntime; policy.pt2 needs PyTorch
    policy.reset()                    # at the start of each episode
    action = policy(observation)      # as the environment gives it
    policy.ok                         # False: the safe action was returned

If the observation has NaN or infinity, a choice that does not exist or a pixel out of range, the
action is the safe action, zero within the bounds, and `ok` is False. Such an observation does not
enter the frame stack. An observation of another shape raises ValueError.

    python policy_graph.py --selftest policy.onnx [VECTORS]    # compare with recorded actions

Another program gives the graph a batch of each part of the observation, as float32. A graph
remembers nothing: with a frame stack, its last input is `frames`, NaN at the start of an episode
and `next_frames` of the last call after that.
"""

import json
import pathlib
import sys
import time  # noqa: F401  `selftest` needs it, where it is part of this file
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from td3.exports.runtime import selftest

TABLE = "policy.json"  # in the file: what a caller must know about the graph
Run = Callable[[list[Any]], list[Any]]


class Policy:
    """Maps one observation of the environment to one action of the environment."""

    def __init__(self, path: str = "policy.onnx") -> None:
        opener = open_torch if str(path).endswith(".pt2") else open_onnx
        text, self.run = opener(str(path))
        self.program = json.loads(text)
        self.low, self.high = (np.array(self.program[name]) for name in ("low", "high"))
        self.ok = True
        """Whether the last observation and action were valid."""
        self.reset()

    def reset(self) -> None:
        """Forget the observations of the last episode. Only policies with a frame stack do."""
        stack, size = self.program["stack"], self.program["state_size"]
        self.frames = np.full((1, stack, size // stack), np.nan, dtype=np.float32)

    def __call__(self, observation: Any) -> Any:
        """The action, in the shape and type of the environment."""
        action = self.act(self.read(observation))
        return action.astype(self.program["dtype"]).reshape(self.program["shape"])

    def act(self, parts: list[Any]) -> Any:
        """The action in double precision for the parts of one observation."""
        stacked = [self.frames] if self.program["stack"] > 1 else []
        action, ok, *frames = self.run([*(part[None] for part in parts), *stacked])
        self.ok = bool(ok[0])
        if frames:
            self.frames = frames[0]
        return action[0].ravel()

    def read(self, observation: Any) -> list[Any]:
        """The parts of one observation, in float32."""
        parts = []
        for part in self.program["inputs"]:
            value = observation
            for key in part["path"]:
                value = value[key]
            with np.errstate(over="ignore"):
                numbers = np.asarray(value, dtype=np.float32)
            if list(numbers.shape) != part["shape"]:
                name = ".".join(map(str, ["observation", *part["path"]]))
                raise ValueError(f"{name} has the shape {numbers.shape}, not {part['shape']}")
            parts.append(numbers)
        return parts

    def read_vector(self, vector: Any) -> list[Any]:
        """The same for an observation whose parts are one vector, as in the test vectors."""
        sizes = [int(np.prod(part["shape"], dtype=int)) for part in self.program["inputs"]]
        parts = np.split(np.asarray(vector, dtype=np.float32), np.cumsum(sizes)[:-1])
        pairs = zip(parts, self.program["inputs"], strict=True)
        return [numbers.reshape(part["shape"]) for numbers, part in pairs]


def open_onnx(path: str) -> tuple[str, Run]:
    """The table of policy.onnx, and a function that runs it on one core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [part.name for part in session.get_inputs()]

    def run(values: list[Any]) -> list[Any]:
        found: list[Any] = session.run(None, dict(zip(names, values, strict=True)))
        return found

    return session.get_modelmeta().custom_metadata_map[TABLE], run


def open_torch(path: str) -> tuple[str, Run]:
    """The table of policy.pt2, and a function that runs it on one core."""
    import torch

    torch.set_num_threads(1)
    extra = {TABLE: ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch 2.11 warns about its own buffer
        module = torch.export.load(path, extra_files=extra).module()
    table = json.loads(extra[TABLE])
    names = [".".join(map(str, ["observation", *part["path"]])) for part in table["inputs"]]

    @torch.no_grad()
    def run(values: list[Any]) -> list[Any]:
        tensors = [torch.from_numpy(np.array(value)) for value in values]
        parts, frames = tensors[: len(names)], tensors[len(names) :]
        found = module(dict(zip(names, parts, strict=True)), *frames)
        return [tensor.numpy() for tensor in found.values()]

    return extra[TABLE], run


def main() -> int:
    """The command line."""
    if sys.argv[1:2] != ["--selftest"] or len(sys.argv) not in (3, 4):
        print(__doc__)
        return 2
    file = pathlib.Path(sys.argv[2])
    vectors = (
        pathlib.Path(sys.argv[3]) if len(sys.argv) == 4 else file.parent / "policy_vectors.bin"
    )
    return selftest(Policy(sys.argv[2]), vectors)


if __name__ == "__main__":
    sys.exit(main())

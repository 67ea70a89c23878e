"""A program as a PyTorch module, for the formats that are graphs: torch.export and ONNX.

A graph remembers nothing. With a frame stack it takes the last frames and returns the next ones.
"""

import json
from typing import Any

import torch
from torch import Tensor, nn

from td3.algorithm.agent import TD3
from td3.algorithm.tensors import map_tensors
from td3.exports.pack import program_json
from td3.exports.program import Input, Program, Step
from td3.exports.runtime import Policy as Runtime
from td3.layout import ROUNDING


class Graph(nn.Module):
    """Maps a batch of raw observations to actions.

    Called with one float32 tensor for each part of the observation, (batch, *shape), by its name.
    With a frame stack, `frames` (batch, stack, width) are the last ones, NaN at the start of an
    episode. Returns `action` in double precision, `ok`, and with a frame stack `next_frames`.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.inputs = program.inputs
        self.readers = nn.ModuleList([Reader(part) for part in program.inputs])
        self.steps = AgentRows(program.agent) if program.agent else steps_module(program.steps)
        self.stack, self.shape = program.stack, program.shape
        self.width = program.state_size // program.stack
        self.low: Tensor
        self.high: Tensor
        self.register_buffer("low", torch.from_numpy(program.low))
        self.register_buffer("high", torch.from_numpy(program.high))

    def forward(self, parts: dict[str, Tensor], frames: Tensor | None = None) -> dict[str, Tensor]:
        read = [reader(part) for reader, part in zip(self.readers, parts.values(), strict=True)]
        frame = torch.cat(read, dim=1)
        ok = torch.isfinite(frame).all(dim=1)
        state, rest = frame, {}
        if frames is not None:
            none_yet = torch.isnan(frames[:, :1, :1])
            repeated = frame[:, None].expand(-1, self.stack, -1)
            joined = torch.cat([frames[:, 1:], frame[:, None]], dim=1)
            pushed = torch.where(none_yet, repeated, joined)
            state = pushed.flatten(1)
            rest["next_frames"] = torch.where(ok[:, None, None], pushed, frames)
        share = (self.steps(state.double()) + 1) / 2
        action = self.low * (1 - share) + self.high * share
        ok = ok & torch.isfinite(action).all(dim=1)
        safe = torch.zeros_like(action).clamp(self.low, self.high)
        action = torch.where(ok[:, None], action.clamp(self.low, self.high), safe)
        return {"action": action.view(-1, *self.shape), "ok": ok, **rest}

    def example(self, batch: int) -> tuple[Any, ...]:
        """Arguments for `forward`."""
        parts = {part.name: torch.zeros(batch, *part.shape) for part in self.inputs}
        frames = torch.full((batch, self.stack, self.width), torch.nan)
        return (parts, frames) if self.stack > 1 else (parts,)


class Reader(nn.Module):
    """One part of an observation as float32 numbers that the network sees; NaN: invalid."""

    def __init__(self, part: Input) -> None:
        super().__init__()
        self.kind = part.kind
        for choice, (count, start) in enumerate(zip(part.counts, part.starts, strict=True)):
            numbers = torch.arange(start, start + count, dtype=torch.float32)
            self.register_buffer(f"choices_{choice}", numbers)
        low, high = torch.tensor([part.low, part.high])
        margin = ROUNDING * (high - low)
        factor = torch.tensor(255 / (part.high - part.low))
        self.range: Tensor
        """Of pixels: low, high, lowest and highest that are valid, factor to bytes."""
        self.register_buffer("range", torch.stack([low, high, low - margin, high + margin, factor]))

    def forward(self, numbers: Tensor) -> Tensor:
        x = numbers.reshape(numbers.shape[0], -1)
        if self.kind == "choices":
            read = [self.one_hot(x[:, k : k + 1], f"choices_{k}") for k in range(x.shape[1])]
            return torch.cat(read, dim=1)
        if self.kind == "image":
            low, high, lowest, highest, factor = self.range.unbind()
            valid = (x >= lowest) & (x <= highest)
            pixels = torch.round((x.clamp(low, high) - low) * factor)
            return torch.where(valid, pixels, torch.nan)
        return x

    def one_hot(self, number: Tensor, known: str) -> Tensor:
        chosen = number == getattr(self, known)
        return torch.where(chosen.any(dim=1, keepdim=True), chosen.float(), torch.nan)


class AgentRows(nn.Module):
    """The actor of a variant: rows of states to rows of actions within [-1, 1]."""

    def __init__(self, agent: TD3) -> None:
        super().__init__()
        # torch.export takes no subclasses of Parameter.
        self.agent = map_tensors(agent, lambda path, tensor: tensor.detach().clone())

    def forward(self, states: Tensor) -> Tensor:
        return self.agent.act(states[None])[0]


class AgentRuntime(Runtime):
    """Runs a program whose network is an agent."""

    def __init__(self, program: Program) -> None:
        super().__init__(json.loads(program_json(program)))
        assert program.agent is not None
        self.agent = program.agent

    def network(self, state: Any) -> Any:
        return self.agent.act(torch.from_numpy(state)[None, None])[0, 0].numpy()


def steps_module(steps: list[Step]) -> nn.Sequential:
    return nn.Sequential(*[Operation(step) for step in steps])


class Operation(nn.Module):
    """One step on rows in double precision."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.op, self.facts = step.op, step.facts
        for name, array in step.arrays.items():
            self.register_buffer(name, torch.from_numpy(array.copy()))
        for number, (index, _) in enumerate(step.branches):
            self.register_buffer(f"index_{number}", torch.from_numpy(index.copy()))
        self.branches = nn.ModuleList([steps_module(steps) for _, steps in step.branches])

    def double(self, name: str) -> Tensor:  # type: ignore[override]
        """A table in double precision; files hold float32."""
        table: Tensor = getattr(self, name)
        return table.to(torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        match self.op:
            case "normalize":
                clip = self.facts["clip"]
                return ((x - self.double("shift")) * self.double("scale")).clamp(-clip, clip)
            case "dense":
                return x @ self.double("weight") + self.double("bias")
            case "relu":
                return torch.relu(x)
            case "tanh":
                return torch.tanh(x)
            case "layer_norm":
                centred = x - x.mean(dim=1, keepdim=True)
                variance = (centred * centred).mean(dim=1, keepdim=True)
                return centred / torch.sqrt(variance + self.facts["epsilon"])
            case "rms_norm":
                return x / torch.sqrt((x * x).mean(dim=1, keepdim=True) + self.facts["epsilon"])
            case "residual":
                changed: Tensor = self.branches[0](x)
                return x + changed
            case "pixels":
                return x / 255 - 0.5
            case "convolve":
                return self.convolve(x)
        parts = [steps(x[:, getattr(self, f"index_{k}")]) for k, steps in enumerate(self.branches)]
        return torch.cat(parts, dim=1)

    def convolve(self, x: Tensor) -> Tensor:
        """A sum over the kernel's places: onnxruntime has no convolution in double precision."""
        _, height, width = sides = self.facts["sides"]
        stride, weight = self.facts["stride"], self.double("weight")
        size = weight.shape[-1]
        rows, columns = ((side - size) // stride + 1 for side in (height, width))
        image = x.view(-1, *sides)
        seen = self.double("bias")[:, None]
        for i in range(size):
            for j in range(size):
                last_row, last_column = i + stride * (rows - 1), j + stride * (columns - 1)
                part = image[:, :, i : last_row + 1 : stride, j : last_column + 1 : stride]
                seen = seen + weight[:, :, i, j] @ part.reshape(-1, sides[0], rows * columns)
        return seen.flatten(1)

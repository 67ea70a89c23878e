"""A program in C99: one header, one source file, no dependencies, no allocation."""

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from td3.exports.program import Array, Program, Step
from td3.text import count as amount

TEMPLATES = Path(__file__).parent / "templates"
PER_LINE = 8


def write_c(program: Program) -> dict[str, str]:
    """policy.h, policy.c, the self-test and CMakeLists.txt."""
    writer = Writer(program)
    others = ("policy_selftest.c", "CMakeLists.txt")
    return {
        "policy.h": writer.header(),
        "policy.c": writer.source(),
        **{name: (TEMPLATES / name).read_text(encoding="utf-8") for name in others},
    }


class Writer:
    """Collects the tables and statements of one policy."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tables: list[str] = []
        self.used: set[str] = set()
        self.widest = 1
        """Numbers of the largest vector between two steps."""
        self.joined = 0
        """Numbers of the joined branches."""
        self.result = ""
        """The vector that the last step gives."""
        self.numbers = count(1)
        self.statements = list(self.steps(program.steps, "policy->state", program.state_size))

    def header(self) -> str:
        program = self.program
        facts = [f" *   {key}: {plain(value)}" for key, value in program.facts.items()]
        offsets, start = [], 0
        for part in program.inputs:
            name = re.sub(r"\W", "_", part.name.removeprefix("observation.")).upper()
            if len(program.inputs) > 1:
                what = f"{amount(part.size, 'number')}: {plain(part.name)}"
                offsets.append(f"#define POLICY_AT_{name} {start} /* {what} */")
            start += part.size
        names = {
            "FACTS": "\n".join(facts),
            "SHA": re.sub(r"\W", "", str(program.facts.get("sha256", ""))),
            "OFFSETS": "\n".join(offsets),
            "INPUTS": program.input_size,
            "OUTPUTS": program.outputs,
            "STACK": program.stack,
            "FRAME": program.state_size // program.stack,
            "STATE": program.state_size,
            "WIDEST": self.widest,
            "JOINED": max(1, self.joined),
        }
        return fill("policy.h", names)

    def source(self) -> str:
        program = self.program
        functions = (TEMPLATES / "functions.c").read_text(encoding="utf-8")
        chosen = [
            text
            for text in functions.split("\n\n/* function ")[1:]
            if text.split(" ")[0] in self.used | {part.kind for part in program.inputs}
        ]
        names = {
            "TABLES": "\n\n".join(self.tables),
            "FUNCTIONS": "\n\n".join(text.partition("*/\n")[2].strip() for text in chosen),
            "READ": "\n".join(self.reads()),
            "STEPS": "\n".join(self.statements),
            "LOW": doubles(program.low),
            "HIGH": doubles(program.high),
            "RESULT": self.result,
        }
        return fill("policy.c", names)

    def reads(self) -> Iterator[str]:
        """Statements that copy one observation into `frame`."""
        start = output = 0
        for part in self.program.inputs:
            at, to = f"observation + {start}", f"frame + {output}"
            match part.kind:
                case "numbers":
                    yield f"    valid &= read_numbers({at}, {part.size}, {to});"
                case "image":
                    low, factor = np.float32(part.low), np.float32(255 / (part.high - part.low))
                    bounds = f"{single(low)}, {single(np.float32(part.high))}, {single(factor)}"
                    yield f"    valid &= read_image({at}, {part.size}, {bounds}, {to});"
                case _:
                    for position, (number, first) in enumerate(
                        zip(part.counts, part.starts, strict=True)
                    ):
                        where, onto = f"observation[{start + position}]", f"frame + {output}"
                        yield f"    valid &= read_choice({where}, {first}, {number}, {onto});"
                        output += number
            start += part.size
            output += part.outputs if part.kind != "choices" else 0

    def steps(self, steps: list[Step], x: str, size: int) -> Iterator[str]:
        """Statements for the steps; `self.result` and `self.size` are what the last one gives."""
        for step in steps:
            name = {field: self.table(field, array) for field, array in step.arrays.items()}
            other = "policy->b" if x == "policy->a" else "policy->a"
            self.used.add(step.op)
            match step.op:
                case "normalize":
                    call = f"{x}, {size}, {name['shift']}, {name['scale']}, {step.facts['clip']}"
                case "dense":
                    outputs = step.arrays["weight"].shape[1]
                    call = f"{x}, {size}, {name['weight']}, {name['bias']}, {other}, {outputs}"
                    x, size = other, outputs
                case "convolve":
                    call, x, size = self.convolution(step, name, x, other), other, 0
                    size = self.convolved
                case "layer_norm" | "rms_norm":
                    call = f"{x}, {size}, {step.facts['epsilon']}"
                case "branches":
                    yield from self.branches(step, x)
                    x, size = "policy->joined", self.joined
                    continue
                case "residual":
                    yield from self.residual(step, x, size)
                    x = self.result
                    continue
                case _:
                    call = f"{x}, {size}"
            self.widest = max(self.widest, size)
            yield f"    {'apply_' if step.op == 'tanh' else ''}{step.op}({call});"
        self.result, self.size = x, size

    def convolution(self, step: Step, name: dict[str, str], x: str, other: str) -> str:
        outputs, channels, kernel, _ = step.arrays["weight"].shape
        _, height, width = step.facts["sides"]
        stride = step.facts["stride"]
        self.convolved = outputs * np.prod([(s - kernel) // stride + 1 for s in (height, width)])
        sizes = f"{channels}, {height}, {width}, {kernel}, {stride}, {outputs}"
        return f"{x}, {name['weight']}, {name['bias']}, {other}, {sizes}"

    def branches(self, step: Step, x: str) -> Iterator[str]:
        for index, steps in step.branches:
            self.used |= {"gather", "append"}
            self.widest = max(self.widest, index.size)
            yield f"    gather({x}, {self.table('index', index)}, {index.size}, policy->a);"
            yield from self.steps(steps, "policy->a", index.size)
            yield f"    append({self.result}, {self.size}, policy->joined + {self.joined});"
            self.joined += self.size

    def residual(self, step: Step, x: str, size: int) -> Iterator[str]:
        """Keep x, apply the steps and add x to what they give."""
        self.used |= {"append", "add"}
        kept = f"policy->joined + {self.joined}"
        self.joined += size
        yield f"    append({x}, {size}, {kept});"
        yield from self.steps(step.branches[0][1], x, size)
        yield f"    add({self.result}, {kept}, {size});"

    def table(self, field: str, array: Array) -> str:
        """Add a constant table; returns its name."""
        name = f"{field}_{next(self.numbers)}"
        kind, text = ("float", single) if array.dtype.kind == "f" else ("int", str)
        words = [text(number) for number in array.ravel()]
        self.tables.append(f"static const {kind} {name}[{array.size}] = {{\n{lines(words)}\n}};")
        return name


def lines(words: list[str]) -> str:
    rows = (words[start : start + PER_LINE] for start in range(0, len(words), PER_LINE))
    return ",\n".join("    " + ", ".join(row) for row in rows)


def single(number: Any) -> str:
    """A float32 that reads back as the same number."""
    text = f"{float(number):.9g}"
    return text + ("f" if set(text) & set(".en") else ".0f")


def doubles(numbers: Array) -> str:
    return lines([f"{number:.17e}" for number in numbers.tolist()])


def plain(value: Any) -> str:
    """Text that is safe in a comment."""
    text = re.sub(r"[^ -~]", "?", str(value))
    return text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def fill(template: str, names: dict[str, Any]) -> str:
    """The template with each `@NAME@` replaced."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return re.sub(r"@([A-Z]+)@", lambda match: str(names[match[1]]), text)

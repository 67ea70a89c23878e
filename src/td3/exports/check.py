"""Run the self-tests of an export with whatever runtimes are installed."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from td3.errors import UserError
from td3.exports.export import Export

OBSERVATIONS = 10_000
MOST_SECONDS = 600
COMPILERS = ("gcc", "clang")
WARNINGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
GRAPHS = {"onnx": ("policy.onnx", "onnxruntime"), "torch": ("policy.pt2", "torch")}
ALL = "all_vectors.bin"


class Check(NamedTuple):
    """The result of one self-test."""

    name: str
    passed: bool | None
    """None: its runtime is not installed."""
    text: str


def check_export(export: Export) -> list[Check]:
    """Run every self-test on all vectors, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export.write(folder)
        (folder / ALL).write_bytes(export.vectors.to_bytes())
        return list(run_selftests(folder))


def run_selftests(folder: Path) -> Iterator[Check]:
    """Yield the result of each self-test in a folder with an export."""
    if (folder / "policy.py").exists():
        yield run("numpy", [sys.executable, "policy.py", "--selftest", ALL], folder)
    if (folder / "policy.c").exists():
        for compiler in COMPILERS:
            yield compile_and_run(compiler, folder)
    if (folder / "policy.mjs").exists():
        yield run("js", ["node", "policy.mjs", "--selftest", ALL], folder)
    for name, (file, package) in GRAPHS.items():
        if not (folder / file).exists():
            continue
        if importlib.util.find_spec(package) is None:
            yield Check(name, None, f"skipped: {package} is not installed")
        else:
            command = [sys.executable, "policy_graph.py", "--selftest", file, ALL]
            yield run(name, command, folder)


def compile_and_run(compiler: str, folder: Path) -> Check:
    """The C self-test with one compiler."""
    program = f"./selftest_{compiler}"
    command = [compiler, *WARNINGS, "policy.c", "policy_selftest.c", "-lm", "-o", program]
    compiled = run(f"c ({compiler})", command, folder)
    return run(compiled.name, [program, ALL], folder) if compiled.passed else compiled


def run(name: str, command: list[str], folder: Path) -> Check:
    """Run one command; its last line is the result."""
    if not command[0].startswith("./") and shutil.which(command[0]) is None:
        return Check(name, None, f"skipped: {command[0]} is not installed")
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=MOST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"The self-test {name} ran for more than {MOST_SECONDS} s.") from error
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines() or ["no output"]
    return Check(name, done.returncode == 0, lines[-1])

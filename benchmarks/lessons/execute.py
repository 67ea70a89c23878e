"""Run the notebook of a lesson and keep what it shows for its page."""

import base64
import json
import os
import resource
import runpy
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.lessons.notebook import ROOT, Page, as_text, notebook_of

SOLUTIONS = ROOT / "tests" / "lessons" / "solutions"
PATIENCE = 900  # seconds for one cell, on a machine that does other things too


class Seconds(NamedTuple):
    """How long a notebook ran."""

    wall: float
    cpu: float
    """Of all processor cores together; hardly depends on what else the machine does."""


def execute(page: Page, solution: str = "") -> tuple[Any, Seconds]:
    """Run a notebook in a kernel of its own; returns it with outputs, and the seconds."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(as_text(notebook_of(page, solution)), as_version=4)
    client = NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3")
    client.extra_arguments = ["--log-level=ERROR"]
    start, before = time.monotonic(), cpu_of_children()
    with tempfile.TemporaryDirectory() as home:  # not the progress of who runs this
        client.execute(env={**os.environ, "TD3_HOME": home, "OMP_NUM_THREADS": "1"})
    return notebook, Seconds(time.monotonic() - start, cpu_of_children() - before)


def cpu_of_children() -> float:
    """Processor time of the child processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def solution_of(page: Page) -> str:
    """The reference solution: it replaces the exercise's cell."""
    return str(runpy.run_path(str(SOLUTIONS / f"lesson{page.number:02}.py"))["SOLUTION"])


def exercise_output(notebook: Any) -> str:
    """What the cell of the exercise printed: the checker's answer."""
    cell = next(c for c in notebook.cells if "exercise" in c.metadata.get("tags", []))
    return printed(cell)


def printed(cell: Any) -> str:
    """The text that a cell shows."""
    parts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream" and output.name == "stdout":
            parts.append(output.text)
        elif output.output_type == "execute_result":
            parts.append(output.data.get("text/plain", "") + "\n")
    return "".join(parts)


def store_outputs(page: Page, notebook: Any, seconds: dict[str, Seconds]) -> None:
    """Write figures and printed text of the lesson's cells, and what they belong to."""
    shutil.rmtree(page.outputs, ignore_errors=True)
    page.outputs.mkdir(parents=True)
    cells = [c for c in notebook.cells if {"lesson", "exercise"} & {*c.metadata.get("tags", [])}]
    for number, cell in enumerate(cells, start=1):
        if text := printed(cell).rstrip():
            (page.outputs / f"{number}.txt").write_text(text + "\n", encoding="utf-8")
        figures = [o.data["image/png"] for o in cell.outputs if "image/png" in o.get("data", {})]
        for which, figure in enumerate(figures, start=1):
            write_figure(page.outputs / f"{number}-{which}.png", figure)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    record = {
        "code": page.digest,
        "seconds": {name: round(own.wall, 1) for name, own in seconds.items()},
        "cpu_seconds": {name: round(own.cpu, 1) for name, own in seconds.items()},
        "commit": commit,
    }
    path = page.outputs / "record.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def write_figure(path: Path, figure: str) -> None:
    path.write_bytes(base64.b64decode(figure))

"""benchmarks/README.md lists every stored result, and its commands parse."""

import importlib
import re
import shlex

import pytest
import tyro
from support.stored_results import ROOT

from benchmarks.td3_bench import COMMANDS
from td3.cli.values import registry

FOLDER = ROOT / "benchmarks"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
LISTED = re.findall(r"`python -m benchmarks (\w+[^`]*)`", README)


def test_readme_uses_every_command() -> None:
    assert {line.split()[0] for line in LISTED} == set(COMMANDS)


@pytest.mark.parametrize("line", LISTED)
def test_command_in_readme_parses(line: str) -> None:
    command, *words = shlex.split(line.replace("…", "out.json"))
    module = importlib.import_module(f"benchmarks.td3_bench.commands.{command}")
    arguments = tyro.cli(module.Arguments, args=words, registry=registry())
    assert isinstance(arguments, module.Arguments)


def test_readme_lists_every_stored_result() -> None:
    stored = [path.name for path in (FOLDER / "results").iterdir() if "h200" not in path.name]
    assert len(stored) > 10
    listed = README.replace("`…-course-2-threads.json`", "update-cpu-course-2-threads.json")
    assert [name for name in stored if name not in listed] == []
    assert "results/*-h200*" in README

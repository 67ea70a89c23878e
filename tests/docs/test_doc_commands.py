"""Commands and Python code in the README and the guides work."""

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import td3
from td3 import cli
from td3.config import recipe_text

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def commands() -> Iterator[str]:
    """Every line of a shell block that calls td3, without comment and redirection."""
    for page in PAGES:
        lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
        for line in lines:
            if line.startswith("td3 "):
                yield re.split(r" +#| > ", line)[0].strip()


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_documented_command_parses(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")  # my_variant
    (tmp_path / "mine.toml").write_text(recipe_text("paper"))
    load = importlib.import_module

    def without_running(name: str) -> object:
        module = load(name)
        if not name.startswith("td3.cli."):
            return module
        return SimpleNamespace(**vars(module) | {"run": lambda arguments: 0})

    monkeypatch.setattr(importlib, "import_module", without_running)
    _, command, *words = shlex.split(line)
    assert cli.dispatch(command, words) == 0


def test_readme_first_command_trains_plots_and_films(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = next(
        line
        for block in blocks(PAGES[0], "sh")
        for line in block.splitlines()
        if line.startswith("td3 ")
    )
    assert line == "td3 train --recipe quick --show"
    monkeypatch.chdir(tmp_path)
    budget = ["--steps", "600", "--loop.random-steps", "500", "--run", "run"]
    assert cli.main([*shlex.split(line)[1:], *budget]) == 0
    written = capsys.readouterr().out
    assert {Path(path).suffix for path in re.findall(r"Wrote (\S+)", written)} >= {".png", ".mp4"}


def test_readme_python_ends_with_a_trained_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(PAGES[0], "python"):
        exec(block, names)
    assert td3.evaluate(names["run"], episodes=10).mean > -300  # type: ignore[arg-type]
    assert names["action"].shape == (1,)  # type: ignore[attr-defined]

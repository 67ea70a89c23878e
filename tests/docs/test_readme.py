"""What the documents tell people to type works."""

import re
import shlex
from pathlib import Path

import pytest

from td3.bench.outcomes import read_walkers
from td3.cli import COMMANDS, importlib, parse
from td3.config import load_recipe, recipe_names
from td3.config.checks import check

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("td3 ")]


def test_the_readme_has_its_commands() -> None:
    assert len(commands()) == 31


@pytest.mark.parametrize("line", commands())
def test_every_readme_command_parses(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    from td3.config import recipe_text

    (tmp_path / "mine.toml").write_text(recipe_text("paper"))
    _, command, *words = shlex.split(line)
    assert command in COMMANDS
    module = importlib.import_module(f"td3.cli.{command}")
    default = module.default(words) if hasattr(module, "default") else None
    assert isinstance(parse(module.Arguments, command, words, default), module.Arguments)


def test_the_readme_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks("python")
    assert len(found) == 2
    names: dict[str, object] = {}
    for block in found:
        exec(block, names)
    assert names["action"].shape == (1,)  # type: ignore[attr-defined]


def test_the_readme_tells_what_the_walkers_earned() -> None:
    told = README.partition("## The course's walkers")[2].partition("```")[0]
    walkers = read_walkers(ROOT / "benchmarks/results", ROOT / "benchmarks/reference/pybullet.csv")
    assert len(walkers) == 6
    for course, bullet in zip(walkers[:3], walkers[3:], strict=True):
        assert bullet.published
        figures = [course.last, bullet.last, bullet.final, bullet.published.mean]
        assert f"| {course.task} | {' | '.join(f'{own.mean():,.0f}' for own in figures)} |" in told


def test_the_readme_links_to_files_that_exist() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert len(links) >= 4
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_recipe_is_a_valid_configuration() -> None:
    names = recipe_names()
    assert names == ["bullet", "course", "paper", "pixels", "pixels-quick", "quick"]
    for name in names:
        config = load_recipe(name)
        task = config.environment.id or "Pendulum-v1"
        import dataclasses

        environment = dataclasses.replace(config.environment, id=task)
        assert check(dataclasses.replace(config, environment=environment)).recipe == name


def test_every_setting_explains_itself() -> None:
    """A docstring under each field; help and documents are made from it."""
    text = (ROOT / "src/td3/config/__init__.py").read_text(encoding="utf-8").partition("\ndef ")[0]
    fields = re.findall(r"^    (\w+): [^\n]+ = [^\n]+\n(    \"\"\"|.)", text, re.MULTILINE)
    undocumented = [name for name, following in fields if not following.startswith('    """')]
    nested = {"environment", "agent", "loop", "evaluation", "checkpoint"}
    assert len(fields) >= 30
    assert set(undocumented) <= nested


def test_the_stored_results_still_open() -> None:
    from td3.policy.load import policies_of
    from td3.report.summary import read_run

    run = ROOT / "benchmarks/results/halfcheetah-v5-100k"
    assert [policy.environment.id for policy in policies_of(run)] == ["HalfCheetah-v5"] * 3
    assert sorted(read_run(run).evaluations) == [0, 1, 2]

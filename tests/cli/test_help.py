"""The help of every command: its flags, its width, what it leaves out."""

import contextlib
import importlib
import io
import re
from dataclasses import dataclass
from typing import Any

import pytest
import tyro

import td3
from td3.cli import COMMANDS, main
from td3.cli.help import chosen, help_page, options
from td3.cli.values import registry

PAGES = [[command] for command in COMMANDS] + [["bench", "update"], ["bench", "throughput"]]


def arguments_of(words: list[str]) -> tuple[type, Any]:
    """The class of a command's arguments, and its defaults if they are not those of the class."""
    module = importlib.import_module(f"td3.cli.{words[0]}")
    default = module.default([]) if hasattr(module, "default") else None
    return chosen(words[0], module.Arguments, words[1:])[1], default


@pytest.mark.parametrize("words", [own for own in PAGES if own != ["bench"]], ids=" ".join)
def test_help_lists_the_flags_that_tyro_reads(words: list[str]) -> None:
    kind, default = arguments_of(words)
    given = {"default": default} if default else {}
    captured = io.StringIO()
    with contextlib.redirect_stdout(captured), pytest.raises(SystemExit):
        tyro.cli(kind, args=["--help"], registry=registry(), **given)
    lines = re.sub(r"\x1b\[[\d;]*m", "", captured.getvalue()).splitlines()
    flags = [line[2:].split("  ")[0] for line in lines if re.match("[│ ] --[a-z]", line)]
    by_tyro = {flag for own in flags for flag in re.findall(r"--[\w.-]+", own)}
    switches = {own for own in by_tyro if re.search(r"(--|\.)no-", own)}
    listed = {own.name.replace("[no-]", "") for own in options(kind, default) if own.is_flag}
    assert listed == by_tyro - switches - {"--help", "--from"}


@pytest.mark.parametrize("page", ["--help", "--help-all"])
@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_help_fits_80_columns_and_shows_no_empty_default(
    words: list[str], page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, page]) == 0
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert not re.search(r"None|\[\]|\(default|UNION|\n\n\n", text)
    assert text.startswith(f"usage: td3 {' '.join(words)} ")


def test_help_keeps_examples_together_and_marks_optional_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["learn", "-h"])
    assert capsys.readouterr().out.startswith(
        "usage: td3 learn [LESSON] [OPTIONS]\n\n"
        "List the lessons and your progress, or open one as a notebook.\n\n"
        "  td3 learn\n"
        "  td3 learn 5   # copies lesson 5 into ./my-lessons, once, and opens it\n\n"
        "Options, with their defaults in brackets:\n"
        "  LESSON         Number of the lesson to open.\n"
        "  --folder PATH  Folder for your copies; a copy that exists is never\n"
        "                 overwritten. [my-lessons]\n"
        "  --[no-]open    Open the notebook in Jupyter. [on]\n"
    )
    main(["copy", "-h"])
    assert capsys.readouterr().out.startswith("usage: td3 copy RUN FOLDER [OPTIONS]\n")


@dataclass(frozen=True)
class MySettings(td3.VariantSettings):
    delta: float = td3.setting(0.0, "Error from which the loss is linear.", min=0, paper=1.0)
    width: int = 0
    """Width of
    a layer."""


@dataclass(frozen=True)
class Example:
    """Do something.

    A second paragraph.
    """

    variant: td3.VariantSettings = MySettings()
    runs: tyro.conf.Positional[tuple[int, ...]] = ()


def test_help_of_a_variant_has_its_settings_and_only_the_first_paragraph() -> None:
    assert help_page("train", Example).splitlines() == [
        "usage: td3 train [RUNS …] [OPTIONS]",
        "",
        "Do something.",
        "",
        "A second paragraph.",
        "",
        "Options, with their defaults in brackets:",
        "  RUNS",
        "",
        "The variant of the algorithm and its settings.",
        "  --variant STR          Variant of TD3: a built-in name, or module:Class. Built",
        "                         in: ensemble, flash, huber, lap, layer_norm, lean. Its",
        "                         own settings are --variant.NAME; --help-all lists them.",
        "  --variant.delta FLOAT  Error from which the loss is linear. [0.0; 0 or more;",
        "                         paper: 1.0]",
        "  --variant.width INT    Width of a layer. [0]",
    ]


def test_help_names_flags_as_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", "--help-all"])
    text = " ".join(capsys.readouterr().out.split())
    assert "With --start-from: also start with the replay buffer of that run." in text
    assert "With --start-from, the actor that was loaded takes them." in text

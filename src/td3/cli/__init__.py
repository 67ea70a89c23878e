"""The `td3` command: find the subcommand, parse, run, exit.

Each command is a module here with `Arguments` (a dataclass; tyro makes flags and help of it) and
`run(arguments) -> exit code`. Only the module asked for is imported.
"""

import contextlib
import errno
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from td3.errors import RunStopped, UserError, nearest

COMMANDS = {
    "train": "train agents on an environment",
    "resume": "continue a run that was stopped or killed",
    "evaluate": "play noise-free episodes with a trained policy",
    "video": "film a trained policy (mp4 and GIF)",
    "plot": "draw learning curves with intervals (PNG and SVG)",
    "report": "one page about one or several runs (Markdown and HTML)",
    "bench": "measure speed on this machine; train the paper's tasks",
    "doctor": "check this machine and an environment",
    "recipes": "list, show and copy recipes",
}

OVERVIEW = """\
usage: td3 COMMAND [OPTIONS]      (td3 COMMAND --help explains each)

{commands}

First steps:
  td3 train --recipe quick --show          Pendulum in about a minute, with curve and video
  td3 train HalfCheetah-v5 --seeds 3       the authors' settings, three seeds side by side
  td3 doctor HalfCheetah-v5                is everything in place?
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `td3` command."""
    words = list(sys.argv[1:] if argv is None else argv)
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.encoding.lower() not in ("utf-8", "utf8"):
        out.reconfigure(errors="replace")  # who cannot be shown … is shown a ?
    if not words or words[0] in ("-h", "--help", "help"):
        print(OVERVIEW.format(commands="\n".join(f"  {k:<10}{v}" for k, v in COMMANDS.items())))
        return 0
    if words[0] in ("-V", "--version"):
        from td3 import __version__

        print(f"td3 {__version__}")
        return 0
    if names_task(words):
        with contextlib.suppress(FileNotFoundError):  # a folder that was deleted meanwhile
            sys.path.append(os.getcwd())  # so that my_package:MyEnv-v0 is found where one works
    try:
        return dispatch(words[0], words[1:])
    except UserError as error:
        return fail(str(error), 2)
    except RunStopped as error:
        return fail(str(error), 1)
    except KeyboardInterrupt:
        return fail("Interrupted.", 130)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return fail("There is no room left to write to.", 1)
        if not isinstance(error, BrokenPipeError):
            raise
        sys.stderr.close()  # the reader of our output left, e.g. `td3 … | head`
        return 141


def names_task(words: list[str]) -> bool:
    """Whether the user, not a policy file, chooses the task.

    If a policy file chooses, the current folder stays off the search path. Otherwise a task that
    needs a missing library (phys2d/Pendulum-v0 needs jax) would run a file of that name there.
    """
    given = any(word.partition("=")[0] == "--environment" for word in words)
    return given or words[0] not in ("evaluate", "video")


def dispatch(command: str, words: list[str]) -> int:
    if command not in COMMANDS:
        hint = nearest(command, COMMANDS)
        raise UserError(f"No command {command!r}.{hint} 'td3 --help' lists them.")
    if words[:1] == ["paper"] and command == "bench":  # trains, where its siblings measure
        command, words = "bench_paper", words[1:]
    module = importlib.import_module(f"td3.cli.{command}")
    default = module.default(words) if hasattr(module, "default") else None
    return int(module.run(parse(module.Arguments, command, words, default)))


def parse(kind: Any, command: str, words: list[str], default: Any = None) -> Any:
    """The command's arguments; a mistake becomes one sentence instead of tyro's box."""
    import tyro

    from td3.cli.values import registry

    command = command.replace("_", " ")
    kind_of_default = {} if default is None else {"default": default}
    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured):
            return tyro.cli(
                kind, prog=f"td3 {command}", args=words, registry=registry(), **kind_of_default
            )
    except SystemExit as error:
        if error.code in (0, None):
            raise
        raise UserError(sentence(captured.getvalue(), command)) from None


def sentence(box: str, command: str) -> str:
    """The gist of tyro's boxed message: what is wrong and the nearest valid option."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", box)  # for a terminal it is in colour
    lines = [line.strip("│ ").strip() for line in plain.splitlines()]
    sections: list[list[str]] = [[]]
    for line in lines:
        if line.startswith(("╭", "╰", "─", "---")):
            sections.append([])
        elif line:
            sections[-1].append(line)
    filled = [" ".join(section) for section in sections[1:] if section]  # [0]: the title
    text = filled[0].rstrip(".") if filled else "The arguments could not be read"
    text = text.removeprefix("Error parsing ")
    perhaps = next((s for s in filled[1:] if s.startswith("Perhaps you meant")), "")
    unknown = re.match(r"Unrecognized options: --([\w.-]+)(?:(?:=|, )(?!-)([^\s,]+))?", text)
    if command == "train" and unknown:
        from td3.config import setting_near

        name, value = unknown.groups()
        near = setting_near(name).replace("_", "-")
        near = "steps" if near == "loop.steps" else near
        if near == "environment.id":
            return f"{text}. The task comes without a flag: td3 train {value or 'Pendulum-v1'}."
        perhaps = f"--{near}" if near else perhaps
    option = re.search(r"--[\w.-]+", perhaps)
    hint = f" Did you mean {option.group()}?" if option else ""
    return f"{text}.{hint} See 'td3 {command} --help'."


def fail(message: str, code: int) -> int:
    print(f"td3: {message}", file=sys.stderr)
    return code

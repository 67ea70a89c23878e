"""The `td3` command: find the subcommand, parse its arguments, run it, return an exit code.

Each command is a module in this package with `Arguments` (a dataclass that tyro turns into flags
and help) and `run(arguments) -> exit code`. Only the requested module is imported.
"""

import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from td3.environments.output import output_to_stderr
from td3.errors import RunStopped, UserError, cannot_write, nearest
from td3.files import occupy_standard_streams
from td3.text import printable

COMMANDS = {
    "train": "train agents on an environment",
    "resume": "continue a run that was stopped or killed",
    "tune": "search for the best settings, many trials at once",
    "copy": "copy a run at one of its checkpoints",
    "evaluate": "run a trained policy without exploration noise",
    "video": "record a trained policy (mp4 and GIF)",
    "export": "write a policy as C, JavaScript, NumPy, ONNX or torch.export",
    "play": "show policies in a browser, in MuJoCo's physics",
    "studio": "show your runs in a browser, live",
    "plot": "draw learning curves with confidence intervals (PNG and SVG)",
    "report": "write a page about one or more runs (Markdown and HTML)",
    "bench": "measure speed on this machine",
    "doctor": "check this machine, an environment or a run folder",
    "learn": "list the lessons on TD3, or open one as a notebook",
    "recipes": "list, show and copy recipes",
    "completion": "print a completion script for bash, zsh or fish",
}

HELP = {"-h", "--help", "--help-all"}
LONGEST_MESSAGE = 1000
ADDS = {"--callback"}  # list flags of which each one adds a value

OVERVIEW = """\
usage: td3 COMMAND [OPTIONS]      (help on one command: td3 COMMAND --help)

{commands}

First steps:
  td3 train --recipe quick --show       Pendulum in about a minute, with video
  td3 train HalfCheetah-v5 --seeds 3    the authors' settings, three seeds
  td3 doctor HalfCheetah-v5             check machine and environment
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the `td3` command."""
    occupy_standard_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out.encoding.lower() not in ("utf-8", "utf8"):
        out.reconfigure(errors="replace")  # print ? for characters that it cannot show
    elif isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="surrogateescape")  # paths that are not UTF-8, as they are
    if not words or words[0] in HELP | {"help"}:
        return exit_code_of(show_overview)
    if words[0] in ("-V", "--version"):
        from td3 import __version__

        print(f"td3 {__version__}")
        return 0
    if names_task(words):
        with contextlib.suppress(FileNotFoundError):  # the current folder may have been deleted
            sys.path.append(os.getcwd())  # so that my_package:MyEnv-v0 can be imported from here
    return exit_code_of(lambda: dispatch(words[0], words[1:]))


def show_overview() -> int:
    commands = "\n".join(f"  {name:<12}{what}" for name, what in COMMANDS.items())
    print(OVERVIEW.format(commands=commands), flush=True)
    return 0


def exit_code_of(action: Callable[[], int]) -> int:
    """Run a command; an error becomes one sentence on stderr and an exit code."""
    try:
        return action()
    except UserError as error:
        return fail(str(error), 2)
    except RunStopped as error:
        return fail(str(error), 1)
    except KeyboardInterrupt:
        return fail("Interrupted.", 130)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return fail(f"{cannot_write(error)}.", 1)
        if error.errno == errno.ENAMETOOLONG:
            return fail(f"{error.strerror}: {error.filename}", 2)
        if not isinstance(error, BrokenPipeError):
            raise
        sys.stderr.close()  # the reader of our output has exited, e.g. `td3 … | head`
        return 141


def names_task(words: list[str]) -> bool:
    """Whether the user, not a policy file, chooses what to import.

    If a policy file chooses, the current folder stays off the search path. Otherwise a task that
    needs a missing library (phys2d/Pendulum-v0 needs jax) would run a file of that name there.
    """
    named = ("--environment", "--variant")
    given = any(word.partition("=")[0] in named for word in words)
    return given or words[0] not in ("evaluate", "video", "export", "play", "studio")


def dispatch(command: str, words: list[str]) -> int:
    """Parse the arguments of a command and run it."""
    if command not in COMMANDS:
        hint = nearest(command, COMMANDS)
        raise UserError(f"No command {command!r}.{hint} 'td3 --help' lists them.")
    module = importlib.import_module(f"td3.cli.{command}")
    default = None
    if hasattr(module, "default"):
        with output_to_stderr():  # it may import a user's module
            default = module.default(words)
    if not HELP.isdisjoint(words):
        from td3.cli.help import show_help

        show_help(module, command, words, default)
        return 0
    return int(module.run(parse(module.Arguments, command, words, default)))


def parse(kind: Any, command: str, words: list[str], default: Any = None) -> Any:
    """The arguments of the command.

    Raises:
        UserError: The arguments are wrong; the message is one sentence.
    """
    import tyro

    from td3.cli.values import registry

    refuse_second_list(kind, command, words)
    options = {} if default is None else {"default": default}
    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured):
            return tyro.cli(kind, prog=f"td3 {command}", args=words, registry=registry(), **options)
    except SystemExit:
        from td3.cli.help import chosen
        from td3.cli.mistakes import sentence

        raise UserError(sentence(captured.getvalue(), *chosen(command, kind, words))) from None


def refuse_second_list(kind: Any, command: str, words: list[str]) -> None:
    """Refuse a list flag that stands twice: tyro would drop the first values."""
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    for flag in {flag for flag in flags if flags.count(flag) > 1} - ADDS:
        from td3.cli.help import chosen, options

        _, own = chosen(command, kind, words)
        if any(option.name == flag and option.value.endswith("…") for option in options(own)):
            raise UserError(f"{flag} is given twice; give all of its values after one {flag}.")


def fail(message: str, code: int) -> int:
    """Print an error, short and without control characters: it may quote a file."""
    text = printable(message)
    if len(text) > LONGEST_MESSAGE:
        text = f"{text[:LONGEST_MESSAGE]} (and {len(text) - LONGEST_MESSAGE:,} more characters)."
    print(f"td3: {text}", file=sys.stderr)
    return code

"""td3 completion"""

import contextlib
import dataclasses
import importlib
import io
from typing import Annotated, Any, Literal, Union

import tyro


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Print a script that completes the commands and flags of td3.

    source <(td3 completion bash)
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """The shell that will read the script."""


def run(arguments: Arguments) -> int:
    print(script(arguments.shell))
    return 0


def script(shell: str) -> str:
    """The completion script that tyro writes for all commands together."""
    from td3.cli import COMMANDS
    from td3.cli.values import registry

    commands: list[Any] = []
    for name, description in COMMANDS.items():
        module = importlib.import_module(f"td3.cli.{name}")
        default = {"default": module.default([])} if hasattr(module, "default") else {}
        about = tyro.conf.subcommand(name, description=description, prefix_name=False, **default)
        commands.append(Annotated[module.Arguments, about])
    union: Any = Union[tuple(commands)]  # noqa: UP007 - built at run time
    words = ["--tyro-write-completion", shell, "-"]
    captured = io.StringIO()
    with contextlib.redirect_stdout(captured), contextlib.suppress(SystemExit):
        tyro.cli(union, prog="td3", args=words, registry=registry())
    # Let bash complete file names where tyro has no suggestion, as for run folders.
    return captured.getvalue().replace("complete -F ", "complete -o default -F ").rstrip()

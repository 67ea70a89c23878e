"""td3 doctor"""

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from td3.config import WRAPPERS, EnvironmentConfig, Value
from td3.config.fields import same_as, setting

if TYPE_CHECKING:
    from td3.doctor.check import Check

MARKS = {"ok": "✓", "warning": "!", "error": "✗"}
COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}
INDENT, WIDTH = 16, 80


def environment_flag(name: str) -> Any:
    return tyro.conf.arg(name=f"environment.{name}")


@dataclass(frozen=True)
class Arguments:
    """Check this machine and an environment before training, or verify a run folder.

    It runs the environment with random actions, or checks every file of the run. The exit code is 1
    if there are errors.

        td3 doctor
        td3 doctor HalfCheetah-v5
        td3 doctor runs/my-run --repair
    """

    environment_id: Annotated[
        tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT|RUN")
    ] = setting("", "Gymnasium id, e.g. HalfCheetah-v5, or run folder; default: only the machine.")
    steps: int = setting(2000, "Number of random steps.")
    kwargs: Annotated[dict[str, Value], environment_flag("kwargs")] = same_as(
        EnvironmentConfig, "kwargs"
    )
    pixels: Annotated[bool, environment_flag("pixels")] = same_as(EnvironmentConfig, "pixels")
    resize: Annotated[int, environment_flag("resize")] = same_as(EnvironmentConfig, "resize")
    grey: Annotated[bool, environment_flag("grey")] = same_as(EnvironmentConfig, "grey")
    frame_stack: Annotated[int, environment_flag("frame-stack")] = same_as(
        EnvironmentConfig, "frame_stack"
    )
    action_repeat: Annotated[int, environment_flag("action-repeat")] = same_as(
        EnvironmentConfig, "action_repeat"
    )
    max_episode_steps: Annotated[int, environment_flag("max-episode-steps")] = same_as(
        EnvironmentConfig, "max_episode_steps"
    )
    repair: bool = setting(
        False, "Keep the newest valid state of a run; move the rest to RUN/aside."
    )
    json: bool = setting(False, "Print the checks as JSON.")

    @property
    def environment(self) -> EnvironmentConfig:
        wrappers = {name: getattr(self, name) for name in (*WRAPPERS, "max_episode_steps")}
        return EnvironmentConfig(self.environment_id, self.kwargs, **wrappers)


def run(arguments: Arguments) -> int:
    from td3.doctor.run_checks import is_run
    from td3.errors import UserError

    if is_run(folder := Path(arguments.environment_id or "?")):
        return check_folder(folder, arguments)
    if arguments.repair:
        raise UserError("--repair needs a run folder: td3 doctor RUN --repair.")
    from rich.console import Console

    from td3.doctor import diagnose
    from td3.doctor.machine_checks import machine_facts
    from td3.environments.output import output_to_stderr
    from td3.environments.watch import watch_command

    with output_to_stderr(), watch_command(), Console(stderr=True).status("Checking"):
        diagnosis = diagnose(arguments.environment, arguments.steps)
    if arguments.json:
        checks = [vars(check) for check in diagnosis.checks]
        print(json.dumps({"checks": checks, "machine": machine_facts()}, indent=2))
    else:
        groups = {"Machine": diagnosis.machine, arguments.environment_id: diagnosis.environment}
        show(groups, diagnosis.command)
    return int(any(check.status == "error" for check in diagnosis.checks))


def check_folder(folder: Path, arguments: Arguments) -> int:
    """Verify a run folder, after its repair if that is asked for."""
    from td3.doctor.run_checks import check_run, repair_run

    done = repair_run(folder) if arguments.repair else []
    checks = check_run(folder)
    if arguments.json:
        found = {"run": str(folder), "repaired": done, "checks": [vars(check) for check in checks]}
        print(json.dumps(found, indent=2))
    else:
        for line in done:
            print(f"Repaired: {line}.")
        show({str(folder): checks})
    return int(any(check.status == "error" for check in checks))


def show(groups: "dict[str, list[Check]]", command: str = "") -> None:
    """Print one entry per check, the summary, and the command to train with."""
    from rich.console import Console

    from td3.doctor.check import summary

    # Rich must not wrap: a command stays on one line, to be copied.
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for title, checks in groups.items():
        if checks:
            console.print(title, style="bold")
            for check in checks:
                console.print(MARKS[check.status], style=COLOURS[check.status], end=" ")
                console.print(entry(check))
            console.print()
    every = [check for checks in groups.values() for check in checks]
    console.print(summary(every))
    if command and not any(check.status == "error" for check in every):
        console.print(f"Train with:\n  {command}")


def entry(check: "Check") -> str:
    """The check as text of 80 columns; only its command may be longer."""
    lines = wrap(check.message)
    if check.advice:
        first, *others = wrap(check.advice)
        lines += [f"→ {first}", *(f"  {line}" for line in others)]
    if check.command:
        lines.append(f"    {check.command}")
    return f"{check.name:<{INDENT - 2}}" + f"\n{' ' * INDENT}".join(lines)


def wrap(text: str) -> list[str]:
    width = WIDTH - INDENT - 2
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]

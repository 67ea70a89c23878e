"""td3 doctor"""

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from td3.config import WRAPPERS, EnvironmentConfig, Value

if TYPE_CHECKING:
    from rich.console import RenderableType

    from td3.doctor.diagnosis import Diagnosis
    from td3.doctor.inspection import Check
    from td3.doctor.rehearsal import Tick

MARKS = {"ok": "[green]✓[/green]", "warning": "[yellow]![/yellow]", "error": "[red]✗[/red]"}


@dataclass(frozen=True)
class Arguments:
    """Check this machine and an environment before training.

    The environment is tried with random actions: does td3 accept it, does it repeat, are its
    numbers sound, how fast is it? Exit code 1 if something has to be mended. Examples:

    td3 doctor

    td3 doctor HalfCheetah-v5
    """

    environment_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = ""
    """Gymnasium id, e.g. HalfCheetah-v5 or my_package:MyEnv-v0; none: the machine only."""
    steps: int = 2000
    """Random steps to try it with."""
    kwargs: Annotated[dict[str, Value], tyro.conf.arg(name="environment.kwargs")] = field(
        default_factory=dict
    )
    """Keyword arguments for the environment, e.g. --environment.kwargs ctrl_cost_weight 0.05."""
    pixels: Annotated[bool, tyro.conf.arg(name="environment.pixels")] = False
    """Observe a picture: the task's own if it observes one, else the rendered one."""
    resize: Annotated[int, tyro.conf.arg(name="environment.resize")] = 0
    """Height and width that an image is brought to, in pixels; 0: as it is."""
    grey: Annotated[bool, tyro.conf.arg(name="environment.grey")] = False
    """Take the colours out of an image."""
    frame_stack: Annotated[int, tyro.conf.arg(name="environment.frame-stack")] = 1
    """Observations that make up a state."""
    action_repeat: Annotated[int, tyro.conf.arg(name="environment.action-repeat")] = 1
    """Simulator steps that an action lasts."""
    json: bool = False
    """Print the checks as JSON."""

    @property
    def environment(self) -> EnvironmentConfig:
        own = {name: getattr(self, name) for name in WRAPPERS}
        return EnvironmentConfig(self.environment_id, self.kwargs, **own)


def run(arguments: Arguments) -> int:
    """Look at everything, and say what was found."""
    from td3.doctor.diagnosis import as_dict, diagnose

    # What an environment prints must not end up in the JSON.
    with contextlib.redirect_stdout(sys.stderr), progress(arguments.steps) as tick:
        diagnosis = diagnose(arguments.environment, arguments.steps, tick)
    if arguments.json:
        print(json.dumps(as_dict(diagnosis), indent=2))
    else:
        show(diagnosis, arguments.environment_id)
    return int(any(check.status == "error" for check in diagnosis.checks))


@contextlib.contextmanager
def progress(steps: int) -> Iterator["Tick"]:
    """A spinner, then a bar while the environment is stepped."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as shown:
        task = shown.add_task("looking at the machine", total=None)
        done = 0

        def tick(amount: int) -> None:
            nonlocal done
            done += amount
            if done % 100 == 0:  # drawing costs more than a step
                shown.update(
                    task, description="trying the environment", total=steps, completed=done
                )

        yield tick


def show(diagnosis: "Diagnosis", env_id: str) -> None:
    """A list with a mark for each check, and what to do below those that need it."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print("[bold]Machine[/bold]")
    console.print(listing(diagnosis.machine))
    if diagnosis.environment:
        console.print(f"\n[bold]{env_id}[/bold]")
        console.print(listing(diagnosis.environment))
    console.print(f"\n{verdict(diagnosis, env_id)}")


def verdict(diagnosis: "Diagnosis", env_id: str) -> str:
    statuses = [check.status for check in diagnosis.checks]
    errors, warnings = statuses.count("error"), statuses.count("warning")
    if errors:
        besides = f", {warnings} to know about" if warnings else ""
        return f"{MARKS['error']} {errors} to mend{besides}."
    if warnings:
        return f"{MARKS['warning']} Ready to train; {warnings} to know about."
    command = f": td3 train {env_id} {diagnosis.options}".rstrip() if env_id else "."
    return f"{MARKS['ok']} Ready to train{command}"


def listing(checks: "list[Check]") -> "RenderableType":
    from rich.markup import escape
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(style="bold", no_wrap=True, min_width=13)
    grid.add_column(overflow="fold")
    for check in checks:
        grid.add_row(MARKS[check.status], check.name, escape(check.message))
        if check.advice:
            grid.add_row("", "", f"[dim]→[/dim] {escape(check.advice)}")
    return grid

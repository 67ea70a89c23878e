"""What `td3 train` and `td3 resume` print at the end."""

import json
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

from td3.errors import RunStopped, UserError

HANGUP = 128 + signal.SIGHUP


def finish(folder: Path, code: int, show: bool, quiet: bool, as_json: bool) -> None:
    """Print the result of a run and the commands to continue with."""
    if code == HANGUP:
        return  # the terminal is gone
    from td3.report.page import summary_json
    from td3.report.summary import read_run

    if as_json:
        outcome = {"run": str(folder), "exit_code": code, **summary_json([read_run(folder)])}
        print(json.dumps(outcome))
        return
    where = shlex.quote(str(folder))
    if code:
        print(f"Stopped. Continue with:  {program()} resume {where}")
        return
    if show:
        draw_and_film(folder)
    if quiet:
        print(folder)
        return
    for line in ranking(folder):
        print(line)
    commands = next_commands(folder)
    print(f"\nRun folder: {folder}\nNext:")
    for command in commands:
        print(f"  {program()} {command.format(where)}")


def next_commands(folder: Path) -> list[str]:
    """The commands to continue with; `{}` stands for the run folder."""
    from td3.environments.factories import is_local
    from td3.environments.output import output_to_stderr
    from td3.environments.watch import watch_command
    from td3.policy.video import can_film
    from td3.run.folder import read_config

    environment = read_config(folder)[0].environment
    evaluate, video, others = "evaluate {} --episodes 100", "video {}", ["plot {}", "report {}"]
    if ":" not in environment.id:
        return [evaluate, video, *others]
    if is_local(environment.id):  # only the program that defines it can play it
        return others
    repeated = f" --environment {shlex.quote(environment.id)}"
    with output_to_stderr(), watch_command():
        films = [video + repeated] if can_film(environment) else []
    return [evaluate + repeated, *films, *others]


def ranking(folder: Path) -> list[str]:
    """The combinations of a grid, best first; those with diverged seeds last."""
    from td3.report.page import table
    from td3.report.summary import read_run

    rows = [row for row in table([read_run(folder)]) if row["kind"] == "group" and row["seeds"]]
    if len(rows) < 2:
        return []
    lines = ["", "Mean of the last evaluations (at most ten):"]
    for row in sorted(rows, key=lambda row: (row["frozen"] or 0, -row["last_ten"])):
        lost = f"  ({row['frozen']} of {row['seeds']} diverged)" if row["frozen"] else ""
        lines.append(f"  {row['last_ten']:>10,.1f}  {row['label']}{lost}")
    return lines


def program() -> str:
    """How the user can call this command: by name, or by its path in a virtual environment."""
    if shutil.which("td3"):
        return "td3"
    return os.path.relpath(Path(sys.executable).parent / "td3")


def draw_and_film(folder: Path) -> None:
    """Write the learning curve and a video of the best policy."""
    from td3.environments.output import output_to_stderr
    from td3.environments.watch import watch_command
    from td3.policy.load import load_policy
    from td3.policy.video import film
    from td3.report.plots import plot
    from td3.report.summary import read_run

    def draw_curve() -> list[Path]:
        return plot([read_run(folder)], folder / "plots" / "curves")

    def make_video() -> list[Path]:
        policy = load_policy(folder)
        return film(policy, folder / "videos" / policy.name)

    for write in (draw_curve, make_video):
        try:
            with output_to_stderr(), watch_command():
                paths = write()
            for path in paths:
                print(f"Wrote {path}")
        except (RunStopped, UserError) as error:  # training itself succeeded
            print(f"! {error}")

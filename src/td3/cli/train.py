"""td3 train"""

import dataclasses
import itertools
import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import tyro

from td3.config import Config, load_recipe
from td3.errors import UserError

EXAMPLES = {"--recipe": "course", "--track": "tensorboard", "--grid": "agent.tau=0.005,0.01"}


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Train TD3 on any Gymnasium environment with continuous (Box) actions.

    td3 train --recipe quick --show  # Pendulum in about a minute

    td3 train HalfCheetah-v5 --seeds 3  # the authors' settings, three seeds at once

    td3 train HalfCheetah-v5 --seeds 3 --grid agent.discount=0.98,0.99  # six agents at once

    td3 train AntBulletEnv-v0 --recipe course  # the walk-throughs' settings

    td3 train my_package:MyEnv-v0 --agent.discount 0.98
    """

    environment_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = ""
    """Gymnasium id, e.g. HalfCheetah-v5, dm_control/cheetah-run-v0 or my_package:MyEnv-v0."""
    steps: int | None = None
    """Environment steps per agent; short for --loop.steps."""
    run: Path | None = None
    """Run folder to create; otherwise a new one under runs/."""
    show: bool = False
    """When done, draw the learning curve and film the best policy."""
    quiet: bool = False
    """No progress display; only the run folder, when done."""
    json: bool = False
    """Print the outcome as JSON."""
    config: Annotated[Config, tyro.conf.arg(name="")] = Config()


def default(words: list[str]) -> Arguments:
    """The recipe decides the defaults of all other flags, so it is looked up first."""
    recipe = "paper"
    for word, following in itertools.pairwise([*words, "--"]):
        if word in EXAMPLES and following.startswith("--"):
            raise UserError(f"{word} needs something after it, e.g. {word} {EXAMPLES[word]}.")
        if word == "--recipe":
            recipe = following
        elif word.startswith("--recipe="):
            recipe = word.partition("=")[2]
    return Arguments(config=dataclasses.replace(load_recipe(recipe), recipe=recipe))


def settled(arguments: Arguments) -> Config:
    """The configuration with the short flags worked in."""
    config = arguments.config
    if arguments.environment_id:
        environment = dataclasses.replace(config.environment, id=arguments.environment_id)
        config = dataclasses.replace(config, environment=environment)
    if arguments.steps is not None:
        loop = dataclasses.replace(config.loop, steps=arguments.steps)
        config = dataclasses.replace(config, loop=loop)
    return dataclasses.replace(config, recipe=Path(config.recipe).stem)


def run(arguments: Arguments) -> int:
    config = settled(arguments)
    if not config.environment.id:
        raise UserError(
            "Name an environment, e.g. 'td3 train Pendulum-v1', or use '--recipe quick'."
        )
    from td3.launch.progress import displayed
    from td3.launch.start import start

    with displayed(config, quiet=arguments.quiet or arguments.json) as shown:
        folder, code = start(config, arguments.run, shown)
    finish(folder, code, arguments.show, arguments.quiet, arguments.json)
    return code


def finish(folder: Path, code: int, show: bool, quiet: bool, as_json: bool) -> None:
    """Say what came out and what can be done with it."""
    from td3.report.page import summary_json
    from td3.report.summary import read_run

    if as_json:
        print(
            json.dumps({"run": str(folder), "exit_code": code, **summary_json([read_run(folder)])})
        )
        return
    where = shlex.quote(str(folder))
    if code:
        print(f"Stopped. Continue with:  {program()} resume {where}")
        return
    if show:
        present(folder)
    if quiet:
        print(folder)
    else:
        for line in ranking(folder):
            print(line)
        print(f"""
Run folder: {folder}
Next:
  {program()} evaluate {where} --episodes 100
  {program()} video {where}
  {program()} plot {where}
  {program()} report {where}""")


def ranking(folder: Path) -> list[str]:
    """The settings of a grid, best first, those that lost a seed last."""
    from td3.report.page import table
    from td3.report.summary import read_run

    rows = [row for row in table([read_run(folder)]) if row["kind"] == "group" and row["seeds"]]
    if len(rows) < 2:
        return []
    lines = ["", "Mean of the last ten evaluations:"]
    for row in sorted(rows, key=lambda row: (row["frozen"] or 0, -row["last_ten"])):
        lost = f"  ({row['frozen']} of {row['seeds']} diverged)" if row["frozen"] else ""
        lines.append(f"  {row['last_ten']:>10,.1f}  {row['label']}{lost}")
    return lines


def program() -> str:
    """How the user can call this command: by name, or by its path in a virtual environment."""
    if shutil.which("td3"):
        return "td3"
    return os.path.relpath(Path(sys.executable).parent / "td3")


def present(folder: Path) -> None:
    from td3.policy.load import load_policy
    from td3.policy.video import film
    from td3.report.plots import plot
    from td3.report.summary import read_run

    def curve() -> list[Path]:
        return plot([read_run(folder)], folder / "plots" / "curves")

    def video() -> list[Path]:
        policy = load_policy(folder)
        return film(policy, folder / "videos" / policy.name)

    for draw in (curve, video):
        try:
            for path in draw():
                print(f"Wrote {path}")
        except UserError as error:  # the training itself went well
            print(f"! {error}")

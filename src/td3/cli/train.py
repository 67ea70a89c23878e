"""td3 train"""

import dataclasses
import itertools
from pathlib import Path
from typing import Annotated, Any

import tyro

from td3.cli import help
from td3.config import Config, VariantSettings, from_dict, load_recipe, varied
from td3.config.fields import same_as, setting
from td3.errors import UserError

EXAMPLES = {
    "--recipe": "course",
    "--track": "tensorboard",
    "--variant": "huber",
    "--grid": "agent.tau=0.005,0.01",
    "--callback": "my_module:MyCallback",
    "--stop.after": "2h",
    "--from": "runs/my-run",
}

# The flag is --variant, not --variant.name. Declared here, because worker processes load the
# settings without tyro.
VariantSettings.__annotations__["name"] = Annotated[str, tyro.conf.arg(name="")]


@dataclasses.dataclass(frozen=True)
class Flags(Config):
    """All settings of a run."""

    # Each --callback adds one; of other flags the last one counts.
    callback: tyro.conf.UseAppendAction[tuple[str, ...]] = same_as(Config, "callback")
    start_from: Annotated[str, tyro.conf.arg(aliases=["--from"])] = same_as(Config, "start_from")


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Train TD3 on any Gymnasium environment with continuous (Box) actions.

    td3 train --recipe quick --show      # Pendulum in about a minute

    td3 train HalfCheetah-v5 --seeds 3   # the authors' settings, three seeds

    td3 train Ant-v5 --grid agent.discount=0.98,0.99   # two values at once

    td3 train AntBulletEnv-v0 --recipe course   # the walk-throughs' settings

    td3 train my_module:MyEnv   # a class, a function, or a registered id
    """

    environment_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = (
        setting("", "Gymnasium id, or module:name of your class.", common=True)
    )
    steps: int | None = setting(
        None, "Environment steps per agent.", "Short for --loop.steps.", common=True
    )
    run: Path | None = setting(None, "Run folder to create; default: runs/…", common=True)
    cluster: str = setting(
        "",
        "Ray cluster to train on: auto, local, ADDRESS.",
        "auto: the cluster of this machine; local: start Ray on this machine.",
        common=True,
    )
    populations: int = setting(
        0,
        "With --cluster: parts to divide the agents into; 0: one for each GPU or core.",
        "Each is a run of its own. Affects results only by rounding.",
    )
    storage: str = setting(
        "",
        "With --cluster: shared folder or address for checkpoints.",
        "Any address of fsspec, e.g. s3://bucket/td3. Default: nodes send them to this machine.",
    )
    wait: str = setting("1m", "With --cluster: how long to wait for the first free place.")
    show: bool = setting(False, "At the end, draw the curve and record a video.", common=True)
    quiet: bool = setting(False, 'Print only the run folder and "not exact".', common=True)
    json: bool = setting(False, "Print the result as JSON.", common=True)
    config: Annotated[Flags, tyro.conf.arg(name="")] = Flags()


def default(words: list[str]) -> Arguments:
    """The defaults of all flags, which depend on the recipe and the variant."""
    given = {"--recipe": "paper", "--variant": ""}
    for word, following in itertools.pairwise([*words, "--"]):
        if word in EXAMPLES and following.startswith("--"):
            raise UserError(f"{word} needs a value, e.g. {word} {EXAMPLES[word]}.")
        flag, equals, value = word.partition("=")
        if flag in given:
            given[flag] = value if equals else following
    settings = varied(load_recipe(given["--recipe"]), {"recipe": given["--recipe"]})
    if given["--variant"]:  # its settings become flags
        settings = from_dict({"variant": given["--variant"]}, settings)
    return Arguments(config=Flags(**vars(settings)))


def short_help(arguments: Arguments) -> str:
    steps = arguments.config.loop.steps
    arguments = dataclasses.replace(arguments, steps=steps)
    return help.short_help(arguments, "td3 train [ENVIRONMENT] [OPTIONS]")


def resolve_config(arguments: Arguments) -> Config:
    """The configuration with the positional argument and --steps applied."""
    changes: dict[str, object] = {"recipe": Path(arguments.config.recipe).stem}
    if arguments.environment_id:
        changes["environment.id"] = arguments.environment_id
    if arguments.steps is not None:
        changes["loop.steps"] = arguments.steps
    return varied(Config(**vars(arguments.config)), changes)


def refuse_flags(arguments: Any, *names: str, reason: str = "it works only with --cluster") -> None:
    """Refuse options that are given and would be ignored."""
    defaults = {own.name: own.default for own in dataclasses.fields(arguments)}
    for name in names:
        if getattr(arguments, name) != defaults[name]:
            raise UserError(f"Leave out --{name.replace('_', '-')}: {reason}.")


def run(arguments: Arguments) -> int:
    config = resolve_config(arguments)
    if not config.environment.id:
        raise UserError(
            "Name an environment, e.g. 'td3 train Pendulum-v1', or use '--recipe quick'."
        )
    from td3.cli.outcome import finish
    from td3.environments.output import output_to_stderr
    from td3.launch.progress import open_display

    quiet = arguments.quiet or arguments.json
    if not arguments.cluster:
        refuse_flags(arguments, "populations", "storage", "wait")
    else:
        from td3.cluster import run as on_cluster

        options = on_cluster.Cluster(
            arguments.cluster, arguments.populations, arguments.storage, arguments.wait
        )
        folder, code = on_cluster.start(config, arguments.run, options, quiet)
        finish(folder, code, arguments.show, arguments.quiet, arguments.json)
        return code
    with output_to_stderr(), open_display(config, quiet) as shown:
        from td3.launch.start import start  # loads PyTorch, which takes seconds

        folder, code = start(config, arguments.run, shown)
    finish(folder, code, arguments.show, arguments.quiet, arguments.json)
    return code

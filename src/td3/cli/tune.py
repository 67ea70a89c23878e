"""td3 tune"""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from td3.cli import help, train
from td3.config import Config, read_toml, varied
from td3.config.fields import setting
from td3.errors import UserError

if TYPE_CHECKING:
    from td3.cluster.run import Cluster
    from td3.tuning.plan import Plan
    from td3.tuning.run import Outcome

SEEDS = 3
PASSED = ("trials", "shapes", "rows", "evaluations", "episodes", "objective", "pruner", "confirm")
STORED = ("storage", "study")
CLUSTER = ("populations", "checkpoint_storage", "wait")
MAY_CHANGE = ("resume", "quiet", "json", "cluster", *CLUSTER)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Search for the best settings with Optuna; many trials train in one update.

    td3 tune Pendulum-v1 --recipe quick --trials 30

    td3 tune HalfCheetah-v5 --trials 200 --seeds 3 --steps 100000 --search search.toml

    td3 tune --resume runs/tune-HalfCheetah-v5   # after Ctrl-C or a kill

    Other settings of td3 train apply to every trial.
    """

    environment_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = (
        setting("", "Gymnasium id, or module:name of your class.", common=True)
    )
    trials: int = setting(100, "Number of trials.", common=True)
    steps: int | None = setting(
        None, "Environment steps of a trial.", "Short for --loop.steps.", common=True
    )
    search: Path | None = setting(
        None, "TOML file that narrows or extends the search space.", common=True
    )
    shapes: bool = setting(
        False,
        "Also search hidden layers, batch size and n-step returns.",
        "Trials with equal values of these train together.",
        common=True,
    )
    rows: int = setting(
        0,
        "Agents that train at the same time; 0: 16 on a CPU, 64 on a GPU.",
        "A trial needs one agent for each of its seeds.",
        common=True,
    )
    evaluations: int = setting(10, "Evaluations of a trial.", common=True)
    episodes: int = setting(3, "Episodes of an evaluation.", common=True)
    objective: Literal["last", "area"] = setting(
        "last", "last: mean of the last three evaluations; area: of all.", common=True
    )
    pruner: Literal["halving", "none"] = setting(
        "halving",
        "halving: end bad trials early; none: never.",
        "After a fifth and after half of the steps that follow the random ones, the better half of "
        "all trials so far continues.",
        common=True,
    )
    confirm: int = setting(
        5, "Fresh seeds that compare the best setting with the default; 0: none.", common=True
    )
    storage: str = setting(
        "",
        "Database to share a study, e.g. postgresql://host/db.",
        "Default: a journal file in the folder. sqlite:///study.db works on one machine.",
        common=True,
    )
    study: str = setting("", "Name of the study in --storage.", common=True)
    cluster: str = setting("", "Train on a Ray cluster: auto, local, or its address.", common=True)
    populations: int = setting(
        0, "With --cluster: populations at the same time; 0: one for each GPU or core."
    )
    checkpoint_storage: str = setting(
        "", "With --cluster: shared folder or address for checkpoints, as td3 train --storage."
    )
    wait: str = setting("1m", "With --cluster: how long to wait for the first free place.")
    run: Path | None = setting(None, "Folder to create; default: runs/tune-…", common=True)
    resume: Path | None = setting(None, "Folder of a search to continue.", common=True)
    quiet: bool = setting(False, 'Print only the folder and "not exact".', common=True)
    json: bool = setting(False, "Print the result as JSON.", common=True)
    config: Annotated[train.Flags, tyro.conf.arg(name="")] = train.Flags()


def default(words: list[str]) -> Arguments:
    """The defaults of all flags, which depend on the recipe and the variant."""
    given = train.default(words).config
    return Arguments(config=train.Flags(**vars(varied(given, {"seeds": SEEDS}))))


def short_help(arguments: Arguments) -> str:
    arguments = dataclasses.replace(arguments, steps=arguments.config.loop.steps)
    return help.short_help(arguments, "td3 tune [ENVIRONMENT] [OPTIONS]")


def make_plan(arguments: Arguments) -> "Plan":
    """The plan that the flags ask for."""
    from td3.tuning.plan import Plan

    changes: dict[str, object] = {"recipe": Path(arguments.config.recipe).stem}
    if arguments.environment_id:
        changes["environment.id"] = arguments.environment_id
    if arguments.steps is not None:
        changes["loop.steps"] = arguments.steps
    own = {name: getattr(arguments, name) for name in PASSED + STORED}
    if arguments.search:
        own["search"] = read_toml(arguments.search)
    return Plan(varied(Config(**vars(arguments.config)), changes), **own)


def run(arguments: Arguments) -> int:
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise UserError("td3 tune needs Optuna: pip install 'td3[tune]'") from error
    from td3.cluster.tune import search_on
    from td3.tuning.display import open_tune_display
    from td3.tuning.plan import read_plan
    from td3.tuning.run import create_search, tune

    cluster = read_cluster_flags(arguments)
    if arguments.resume:
        refuse_changes(arguments)
        folder = arguments.resume
        plan = read_plan(folder)
    else:
        plan, folder = create_search(make_plan(arguments), arguments.run)
    with open_tune_display(plan, quiet=arguments.quiet or arguments.json) as display:
        kind = search_on(cluster, folder, arguments.quiet or arguments.json)
        outcome = tune(plan, folder, display, is_new=not arguments.resume, kind=kind)
    report(outcome, arguments)
    return outcome.exit_code


def read_cluster_flags(arguments: Arguments) -> "Cluster":
    """The options of a cluster. Raises UserError if one is wrong or would be ignored."""
    from td3.cluster.run import Cluster, is_cluster_run

    if arguments.resume and is_cluster_run(arguments.resume):
        reason = f"{arguments.resume} continues with its own"
        train.refuse_flags(arguments, "populations", "checkpoint_storage", reason=reason)
    elif not arguments.cluster:
        train.refuse_flags(arguments, *CLUSTER)
    return Cluster(*(getattr(arguments, name) for name in ("cluster", *CLUSTER))).checked()


def refuse_changes(arguments: Arguments) -> None:
    """A search continues as it was planned: its decisions depend on all settings."""
    fresh = default([])
    same = {name: getattr(arguments, name) for name in MAY_CHANGE}
    if arguments != dataclasses.replace(fresh, **same):
        raise UserError(
            f"td3 tune --resume {arguments.resume} continues with the settings in tune.toml and "
            "takes only --quiet, --json and flags of a cluster; start a new search for other "
            "settings."
        )


def report(outcome: "Outcome", arguments: Arguments) -> None:
    """Print the result of a search."""
    from td3.cli.outcome import HANGUP, program
    from td3.text import number
    from td3.tuning.page import difference
    from td3.tuning.results import RECIPE, describe, tally

    if outcome.exit_code == HANGUP:
        return  # the terminal is gone
    if arguments.json:
        print(json.dumps(as_json(outcome)))
        return
    where = shlex.quote(str(outcome.folder))
    if arguments.quiet:
        print(where)
        return
    print(tally(outcome.results))
    if best := outcome.best:
        print(f"Best: trial {best.number}, return {number(best.value or 0)}")
        print(f"  {describe(best.settings)}")
    if outcome.confirmation:
        print(difference(outcome.confirmation))
    if outcome.exit_code:
        print(f"Stopped. Continue with:  {program()} tune --resume {where}")
        return
    print(f"\nReport: {outcome.folder / 'report.html'}")
    if best:
        print(f"Next:\n  {program()} train --recipe {shlex.quote(str(outcome.folder / RECIPE))}")


def as_json(outcome: "Outcome") -> dict[str, object]:
    from td3.tuning.results import RECIPE

    best = outcome.best
    return {
        "folder": str(outcome.folder),
        "exit_code": outcome.exit_code,
        "best": best and {"trial": best.number, "value": best.value, "settings": best.settings},
        "recipe": str(outcome.folder / RECIPE) if best else None,
        "confirmation": outcome.confirmation and dataclasses.asdict(outcome.confirmation),
        "trials": [dataclasses.asdict(own) for own in outcome.results],
    }

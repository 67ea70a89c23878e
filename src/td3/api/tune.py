"""`td3.tune`: search for the best settings from Python."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from td3.api.train import Environment, read_settings
from td3.config import read_toml, varied
from td3.errors import UserError

if TYPE_CHECKING:
    from td3.tuning.run import Outcome

SEEDS = 3


def tune(
    environment: Environment = "",
    recipe: str = "paper",
    *,
    trials: int = 100,
    seeds: int = SEEDS,
    search: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    run: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    cluster: str | Mapping[str, Any] = "",
    pruner: Any = None,
    plan: Mapping[str, Any] | None = None,
    **settings: Any,
) -> "Outcome":
    """Search for the best settings with Optuna, like `td3 tune`.

    Args:
        environment: As in `td3.train`.
        recipe: Name of a recipe, or path of a recipe file.
        trials: Number of trials.
        seeds: Agents of a trial, each with its own seed.
        search: Changes of the search space: a TOML file, or its tables.
        resume: Folder of a search to continue; other arguments but `quiet` and `pruner` are unused.
        run: Folder to create. Default: a new folder in `runs/`.
        quiet: Show no progress.
        cluster: Train on a Ray cluster, as in `td3.train`.
        pruner: An Optuna pruner to use instead of successive halving; pass it again to resume.
        plan: Further options of `td3 tune` by their names, for example `{"rows": 32}`: shapes,
            rows, evaluations, episodes, objective, pruner, confirm, storage, study.
        **settings: Settings of every trial, as in `td3.train`; `steps` is short for `loop.steps`.

    Returns:
        The outcome: `folder`, `best` (a trial with `settings` and `value`), `results` (all
        trials), `confirmation`.

    Raises:
        UserError: A setting is wrong, or the task cannot be trained.
        KeyboardInterrupt: The search was stopped by Ctrl-C. What is done is kept.

    Example:
        found = td3.tune("Pendulum-v1", "quick", trials=30, steps=5_000)
        found.best.settings
    """
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise UserError("td3.tune needs Optuna: pip install 'td3[tune]'") from error
    from td3.cluster.run import read_options
    from td3.cluster.tune import search_on
    from td3.tuning.display import open_tune_display
    from td3.tuning.plan import Plan, read_plan
    from td3.tuning.run import create_search
    from td3.tuning.run import tune as run_tuning

    options = read_options(cluster)
    if resume is not None:
        folder = Path(resume)
        own = read_plan(folder)
    else:
        tables = read_toml(Path(search)) if isinstance(search, str | os.PathLike) else search
        config = varied(read_settings(environment, recipe, settings), {"seeds": seeds})
        try:
            own = Plan(config, trials=trials, search=tables or {}, **dict(plan or {}))
        except TypeError as error:
            raise UserError(f"plan has an unknown option: {error}.") from error
        own, folder = create_search(own, Path(run) if run else None)
    with open_tune_display(own, quiet) as display:
        kind = search_on(options, folder, quiet)
        outcome = run_tuning(own, folder, display, pruner, resume is None, kind)
    if outcome.exit_code:
        raise KeyboardInterrupt(f"Saved. Continue with: td3.tune(resume={str(folder)!r})")
    return outcome

"""`td3.train`: start a run from Python."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from td3.api.run import Run
from td3.config import Config, from_dict, load_recipe
from td3.errors import UserError
from td3.launch.progress import open_display
from td3.launch.start import start
from td3.training.loop import Training


def train(
    environment: str | Mapping[str, Any] = "",
    recipe: str = "paper",
    *,
    run: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train TD3, like `td3 train`, and return the run with its agent, policies and results.

    Args:
        environment: A Gymnasium id, or a table of settings with an `id`, for example
            `{"id": "CarRacing-v3", "frame_stack": 3}`. Default: the recipe's environment.
        recipe: Name of a recipe, or path of a recipe file.
        run: Run folder to create. Default: a new folder in `runs/`.
        quiet: Show no progress.
        **settings: Other fields of `td3.config.Config`, for example `seeds=10` or
            `agent={"batch_size": 100}`; also by dotted names: `**{"agent.batch_size": 100}`.
            `steps` is short for `loop.steps`.

    Returns:
        The run. `td3.load_run` gives it again later.

    Raises:
        UserError: A setting is wrong, or the task cannot be trained.
        RunStopped: Training cannot continue; the last checkpoint is kept.
        KeyboardInterrupt: Training was stopped by Ctrl-C, after saving a checkpoint.

    Example:
        run = td3.train("Pendulum-v1", "quick", seed=1)
        run.evaluations["mean_return"]
    """
    config = read_settings(environment, recipe, settings)
    trained: list[Training] = []
    with open_display(config, quiet) as shown:
        folder, code = start(config, Path(run) if run else None, shown, trained.append)
    return finish_run(folder, code, trained)


def finish_run(folder: Path, code: int, trained: list[Training]) -> Run:
    """The run with the agent and the replay buffer of its training, which is closed by now.

    Raises KeyboardInterrupt if the exit code is not 0.
    """
    if code:
        # Not a return value: the caller may be in a loop over runs.
        raise KeyboardInterrupt(f"Saved. Continue with: td3.resume({str(folder)!r})")
    (training,) = trained
    return Run(folder, agent=training.agent, replay=training.replay)


def read_settings(
    environment: str | Mapping[str, Any], recipe: str, settings: dict[str, Any]
) -> Config:
    """The configuration that the arguments of `train` ask for."""
    if "steps" in settings:
        settings["loop.steps"] = settings.pop("steps")
    if environment:
        table = {"id": environment} if isinstance(environment, str) else environment
        if not isinstance(table, Mapping):
            raise UserError(
                f"environment must be an id, e.g. 'Pendulum-v1', not {environment!r}: a run "
                "makes its environments itself, so that it can restore them when it resumes."
            )
        settings["environment"] = dict(table)
    return from_dict(nest_settings(settings), default=load_recipe(recipe))


def nest_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Put settings with dotted names into their tables."""
    tables = {name: value for name, value in settings.items() if "." not in name}
    for dotted in [name for name in settings if name not in tables]:
        table, _, name = dotted.partition(".")
        known = tables.get(table, {})
        if not isinstance(known, Mapping):
            raise UserError(f"{table} is a table of settings, not {known!r}.")
        if name in known:
            raise UserError(f"{dotted} is given twice.")
        tables[table] = {**known, name: settings[dotted]}
    return tables

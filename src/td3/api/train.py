"""`td3.train`: start a run from Python."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from td3.api.run import Run
from td3.cluster import run as on_cluster
from td3.config import Config, from_dict, load_recipe
from td3.environments.factories import Factory, name_environment
from td3.errors import UserError
from td3.launch.progress import open_display
from td3.launch.start import start
from td3.run.folder import folder_name, unused_path
from td3.training.callbacks import Callback
from td3.training.loop import Training

Environment = str | Factory | Mapping[str, Any]


@overload
def train(
    environment: Environment = ...,
    recipe: str = ...,
    *,
    run: str | os.PathLike[str] | None = ...,
    quiet: bool = ...,
    callbacks: Sequence[Callback] = ...,
    cluster: str | Mapping[str, Any] = ...,
    **settings: Any,
) -> Run: ...


@overload
def train(
    environment: list[Environment],
    recipe: str = ...,
    *,
    run: str | os.PathLike[str] | None = ...,
    quiet: bool = ...,
    callbacks: Sequence[Callback] = ...,
    cluster: str | Mapping[str, Any] = ...,
    **settings: Any,
) -> list[Run]: ...


def train(
    environment: Environment | list[Environment] = "",
    recipe: str = "paper",
    *,
    run: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    callbacks: Sequence[Callback] = (),
    cluster: str | Mapping[str, Any] = "",
    **settings: Any,
) -> Run | list[Run]:
    """Train TD3, like `td3 train`, and return the run with its agent, policies and results.

    Args:
        environment: A Gymnasium id, a class, a function that returns a new environment, or
            `module:name` of one. Also a table of settings with an `id`, for example
            `{"id": "CarRacing-v3", "frame_stack": 3}`. A list trains on one after the other.
            Default: the recipe's environment.
        recipe: Name of a recipe, or path of a recipe file.
        run: Run folder to create; for a list, the folder that will hold the runs. Default: a new
            folder in `runs/`.
        quiet: Show no progress.
        callbacks: Objects of subclasses of `td3.Callback`. They are not stored; pass them again
            when you resume. The setting `callback=["my_module:MyCallback"]` is stored.
        cluster: Train on a Ray cluster: `"auto"`, `"local"` or its address. Also a table with
            `address`, `populations`, `storage` and `wait`, as the flags of `td3 train`. The run
            then has results and policies; agent and replay buffer are in its `populations/`.
        **settings: Other fields of `td3.config.Config`, for example `seeds=10` or
            `agent={"batch_size": 100}`; also by dotted names: `**{"agent.batch_size": 100}`.
            `steps` is short for `loop.steps`. `start_from` takes a `Run`, a run folder or a policy
            file whose networks to start from.

    Returns:
        The run; for a list, a list of runs. `td3.load_run` gives it again later.

    Raises:
        UserError: A setting is wrong, or the task cannot be trained.
        RunStopped: Training cannot continue; the last checkpoint is kept.
        KeyboardInterrupt: Training was stopped by Ctrl-C, after saving a checkpoint.

    Example:
        run = td3.train("Pendulum-v1", "quick", seed=1)
        run.evaluations["mean_return"]
    """
    if isinstance(environment, list | tuple):
        if cluster:
            settings["cluster"] = cluster
        return train_each(list(environment), recipe, run, quiet, callbacks, settings)
    config = read_settings(environment, recipe, settings)
    if cluster:
        return train_on_cluster(config, run, cluster, callbacks, quiet)
    trained: list[Training] = []
    with open_display(config, quiet) as shown:
        path = Path(run) if run else None
        folder, code = start(config, path, shown, callbacks, trained.append)
    return finish_run(folder, code, trained)


def train_on_cluster(
    config: Config,
    run: str | os.PathLike[str] | None,
    cluster: str | Mapping[str, Any],
    callbacks: Sequence[Callback],
    quiet: bool,
) -> Run:
    """Train on a Ray cluster."""
    if callbacks:
        raise UserError(
            "callbacks are objects of this process, which the nodes do not have; name the class: "
            "callback=['my_module:MyCallback']."
        )
    options = on_cluster.read_options(cluster)
    folder, code = on_cluster.start(config, Path(run) if run else None, options, quiet)
    return finish_cluster_run(folder, code)


def finish_cluster_run(folder: Path, code: int) -> Run:
    """The run. Raises KeyboardInterrupt if the exit code is not 0."""
    if code:
        raise KeyboardInterrupt(f"Saved. Continue with: td3.resume({str(folder)!r})")
    return Run(folder)


def finish_run(folder: Path, code: int, trained: list[Training]) -> Run:
    """The run with the agent and the replay buffer of its training, which is closed by now.

    Raises KeyboardInterrupt if the exit code is not 0.
    """
    if code:
        # Not a return value: the caller may be in a loop over runs.
        raise KeyboardInterrupt(f"Saved. Continue with: td3.resume({str(folder)!r})")
    (training,) = trained
    training.agent.execution = "auto"  # its learner is closed
    return Run(folder, agent=training.agent, replay=training.replay)


def train_each(
    environments: list[Environment],
    recipe: str,
    run: str | os.PathLike[str] | None,
    quiet: bool,
    callbacks: Sequence[Callback],
    settings: Mapping[str, Any],
) -> list[Run]:
    """Train on one environment after the other; all are checked before the first begins."""
    shared = {name: value for name, value in settings.items() if name != "cluster"}
    names = [read_settings(own, recipe, shared).environment.id for own in environments]
    runs = []
    for environment, name in zip(environments, names, strict=True):
        folder = unused_path(Path(run) / folder_name(name)) if run else None
        runs.append(
            train(environment, recipe, run=folder, quiet=quiet, callbacks=callbacks, **settings)
        )
    return runs


def read_settings(environment: Any, recipe: str, settings: Mapping[str, Any]) -> Config:
    """The configuration that the arguments of `train` ask for."""
    settings = dict(settings)
    if "steps" in settings:
        settings["loop.steps"] = settings.pop("steps")
    if isinstance(environment, Mapping) or environment not in ("", None):
        table = dict(environment) if isinstance(environment, Mapping) else {"id": environment}
        if "id" in table:
            table["id"], kwargs = name_environment(table["id"])
            if kwargs:
                table["kwargs"] = {**kwargs, **table.get("kwargs", {})}
        settings["environment"] = table
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

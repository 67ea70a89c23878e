"""`td3.resume`: continue a run from Python."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from td3.api.run import Run
from td3.api.train import finish_cluster_run, finish_run
from td3.cluster import run as on_cluster
from td3.config import varied
from td3.config.variants import variant_name
from td3.environments.factories import Factory
from td3.launch import resume as launch
from td3.launch.progress import open_display
from td3.run.folder import read_config
from td3.training.callbacks import Callback
from td3.training.loop import Training


def resume(
    folder: str | os.PathLike[str],
    steps: int | None = None,
    *,
    at: int | None = None,
    environment: Factory | str | None = None,
    variant: type[Any] | None = None,
    callbacks: Sequence[Callback] = (),
    device: str | None = None,
    accept_changes: bool = False,
    ignore_stop: bool = False,
    cluster: str = "",
    quiet: bool = False,
) -> Run:
    """Continue a run from its newest valid checkpoint, like `td3 resume`.

    The results are those of a run that was never stopped.

    Args:
        folder: The run folder, or a `Run`.
        steps: New total of environment steps per agent.
        at: Continue from the checkpoint of this step instead of the newest. What is newer moves to
            the folder `aside` of the run.
        environment: The class or function that makes the environments, as given to `train`, or
            `module:name` of it. Needed only if the run's own name for it cannot be imported, for
            example because it was defined in a notebook.
        variant: The class of the algorithm, as given to `train`; needed in the same cases.
        callbacks: Objects of subclasses of `td3.Callback`, as given to `train`.
        device: Continue on another device; results then differ slightly.
        accept_changes: Continue although the code of the variant changed; not exact then.
        ignore_stop: Drop the run's stop conditions.
        cluster: Address of another Ray cluster, for a run that was trained on one.
        quiet: Show no progress.

    Returns:
        The run.

    Raises:
        UserError: The run cannot be continued, or is finished and `steps` is not larger.
        RunStopped: Training cannot continue; the last checkpoint is kept.
        KeyboardInterrupt: Training was stopped by Ctrl-C, after saving a checkpoint.

    Example:
        run = td3.resume("runs/my-run", steps=2_000_000)
    """
    path = Path(folder)
    if variant is not None:
        variant_name(variant)  # from now on the name in config.toml stands for this class
    others = {"at": at, "device": device, "environment": environment, "callbacks": tuple(callbacks)}
    others |= {"accept_changes": accept_changes, "ignore_stop": ignore_stop}
    if on_cluster.continues_on_cluster(path, cluster, **others):
        return finish_cluster_run(path, on_cluster.resume(path, cluster, steps, quiet))
    config, _ = read_config(path)
    if steps is not None:
        config = varied(config, {"loop.steps": steps})
    trained: list[Training] = []
    with open_display(config, quiet) as shown:
        code = launch.resume(
            path,
            steps,
            shown,
            device,
            environment,
            callbacks,
            accept_changes=accept_changes,
            ignore_stop=ignore_stop,
            on_training=trained.append,
            at=at,
        )
    return finish_run(path, code, trained)

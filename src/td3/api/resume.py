"""`td3.resume`: continue a run from Python."""

import os
from pathlib import Path

from td3.api.run import Run
from td3.api.train import finish_run
from td3.config import varied
from td3.launch import start as launch
from td3.launch.progress import open_display
from td3.run.folder import read_config
from td3.training.loop import Training


def resume(
    folder: str | os.PathLike[str],
    steps: int | None = None,
    *,
    device: str | None = None,
    quiet: bool = False,
) -> Run:
    """Continue a run from its newest valid checkpoint, like `td3 resume`.

    The results are those of a run that was never stopped.

    Args:
        folder: The run folder, or a `Run`.
        steps: New total of environment steps per agent.
        device: Continue on another device; results then differ slightly.
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
    config, _ = read_config(path)
    if steps is not None:
        config = varied(config, {"loop.steps": steps})
    trained: list[Training] = []
    with open_display(config, quiet) as shown:
        code = launch.resume(path, steps, shown, device, on_training=trained.append)
    return finish_run(path, code, trained)

"""`td3.resume`: continue a run from Python."""

from pathlib import Path

from td3.config import varied
from td3.environments.factories import Factory
from td3.launch.progress import open_display
from td3.launch.start import resume as resume_run
from td3.run.folder import read_config


def resume(
    folder: str | Path,
    *,
    steps: int | None = None,
    environment: Factory | None = None,
    device: str | None = None,
    quiet: bool = False,
) -> Path:
    """Continue a run from its newest valid checkpoint, like `td3 resume`.

    Args:
        folder: The run folder.
        steps: New total of environment steps per agent.
        environment: The class or function that makes the environments, as given to `train`. Needed
            only if it cannot be imported, for example because it is defined in a notebook.
        device: Continue on another device; results then differ slightly.
        quiet: Show no progress.

    Returns:
        The run folder.

    Raises:
        UserError: The run cannot be continued.
        RunStopped: Training cannot continue; the last checkpoint is kept.
        KeyboardInterrupt: Training was stopped by Ctrl-C, after saving a checkpoint.

    Example:
        td3.resume("runs/my-run", steps=2_000_000)
    """
    path = Path(folder)
    config, _ = read_config(path)
    if steps is not None:
        config = varied(config, {"loop.steps": steps})
    with open_display(config, quiet) as shown:
        code = resume_run(path, steps, shown, device, environment=environment)
    if code:
        raise KeyboardInterrupt(f"Saved. Continue with: td3 resume {path}")
    return path

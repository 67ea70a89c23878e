"""td3 resume"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Continue a run from its newest valid checkpoint, to the numbers it would have had.

    td3 resume runs/my-run

    td3 resume runs/my-run --steps 2000000  # go on beyond what was first asked
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Run folder."""
    steps: int | None = None
    """New total of environment steps per agent."""
    device: str | None = None
    """Go on with another device; the result is then not exact."""
    show: bool = False
    """When done, draw the learning curve and film the best policy."""
    quiet: bool = False
    """No progress display; only the run folder, when done."""
    json: bool = False
    """Print the outcome as JSON."""


def run(arguments: Arguments) -> int:
    from td3.cli.train import finish
    from td3.launch.progress import open_display
    from td3.run.folder import read_config

    config, _ = read_config(arguments.folder)
    if arguments.steps is not None:
        loop = dataclasses.replace(config.loop, steps=arguments.steps)
        config = dataclasses.replace(config, loop=loop)
    with open_display(config, quiet=arguments.quiet or arguments.json) as shown:
        from td3.launch.start import resume  # loads PyTorch, which takes seconds

        code = resume(arguments.folder, arguments.steps, shown, arguments.device)
    finish(arguments.folder, code, arguments.show, arguments.quiet, arguments.json)
    return code

"""td3 resume"""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

NOT_ON_CLUSTER = ("at", "device", "environment", "accept_changes", "ignore_stop")


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Continue a run from its newest valid checkpoint, with the results of an uninterrupted run.

    td3 resume runs/my-run
    td3 resume runs/my-run --steps 2000000   # train for longer
    td3 resume runs/my-run --at 500000   # from an earlier checkpoint
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Run folder."""
    steps: int | None = None
    """New total of environment steps per agent."""
    at: int | None = None
    """Continue from the checkpoint of this step; what is newer moves to RUN/aside."""
    device: str | None = None
    """Continue on another device; results then differ slightly."""
    environment: str | None = None
    """module:name of the class or function that makes the environments, if the run has none."""
    accept_changes: bool = False
    """Continue although the code of the run's variant changed; the result is not exact."""
    ignore_stop: bool = False
    """Drop the run's stop conditions (the table stop in config.toml)."""
    cluster: str = ""
    """Address of another Ray cluster, for a run that was started with --cluster."""
    show: bool = False
    """At the end, draw the learning curve and record a video."""
    quiet: bool = False
    """Print only the run folder and "not exact"."""
    json: bool = False
    """Print the result as JSON."""


def run(arguments: Arguments) -> int:
    from td3.cli.outcome import finish
    from td3.cluster.run import continues_on_cluster
    from td3.config import varied
    from td3.environments.output import output_to_stderr
    from td3.launch.progress import open_display
    from td3.run.folder import read_config

    config, _ = read_config(arguments.folder)
    if arguments.steps is not None:
        config = varied(config, {"loop.steps": arguments.steps})
    quiet = arguments.quiet or arguments.json
    others = {name: getattr(arguments, name) for name in NOT_ON_CLUSTER}
    if continues_on_cluster(arguments.folder, arguments.cluster, **others):
        from td3.cluster.run import resume as resume_on_cluster

        code = resume_on_cluster(arguments.folder, arguments.cluster, arguments.steps, quiet)
        finish(arguments.folder, code, arguments.show, arguments.quiet, arguments.json)
        return code
    with output_to_stderr(), open_display(config, quiet) as shown:
        from td3.launch.resume import resume  # loads PyTorch, which takes seconds

        code = resume(
            arguments.folder,
            arguments.steps,
            shown,
            arguments.device,
            arguments.environment,
            accept_changes=arguments.accept_changes,
            ignore_stop=arguments.ignore_stop,
            at=arguments.at,
        )
    finish(arguments.folder, code, arguments.show, arguments.quiet, arguments.json)
    return code

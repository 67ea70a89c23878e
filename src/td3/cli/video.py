"""td3 video"""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Annotated, Literal

import tyro

from td3.errors import UserError

MOST = 10_000  # more would not fit into memory


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Record the best policy of a run as mp4 and GIF. Works without a display.

    td3 video runs/my-run
    td3 video runs/my-run --agent 2 --episodes 3 --out walk
    td3 video --pretrained Hopper-v5
    """

    folder: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RUN")] = None
    """Run folder, or the .safetensors file of a policy."""
    pretrained: str = ""
    """Instead of a run: the pretrained policy for this task, e.g. HalfCheetah-v5."""
    out: Path | None = None
    """Files to write, without suffix; default: videos/ in the run, or the task's name."""
    agent: int | None = None
    """Number of the agent; default: the best one."""
    which: Literal["best", "last"] = "best"
    """Policy with the best evaluation, or the last one."""
    episodes: int = 1
    """Episodes to record, one after the other."""
    seconds: float = 30.0
    """Longest recording of one episode, in seconds."""
    seed: int = 1_000_000
    """Seed of the episodes."""
    variant: str = ""
    """Class of the policy's variant, module:Class. Only for policies with their own actor; td3
    imports no module that only a file names."""
    environment: str = ""
    """Task to film instead of the one in the policy file, e.g. my_package:MyEnv-v0. Needed if the
    task imports a Python module; td3 imports no module that only a file names."""
    caption: bool = True
    """Show task, training step and return so far in a bar below the frame."""
    json: bool = False
    """Print the paths as JSON."""


def run(arguments: Arguments) -> int:
    if not (1 <= arguments.episodes <= MOST and 0 < arguments.seconds <= MOST):
        raise UserError(f"--episodes and --seconds must be greater than 0 and at most {MOST:,}.")
    if arguments.out and not arguments.out.name:
        raise UserError(f"--out {arguments.out} is not a file name.")
    from rich.console import Console

    from td3.cli.values import given_flags
    from td3.environments.output import output_to_stderr
    from td3.environments.watch import watch_command
    from td3.policy.load import load_policy
    from td3.policy.pretrained import run_or_pretrained
    from td3.policy.video import film

    source = run_or_pretrained(arguments.folder, arguments.pretrained)
    policy = load_policy(
        source, arguments.agent, which=arguments.which, variant=arguments.variant or None
    )
    flags = given_flags(arguments, "folder", "pretrained", "environment")
    command = f"td3 video {shlex.quote(str(source))} --environment {{task}}{flags}"
    policy.task_to_play(arguments.environment, command)
    videos = (source if source.is_dir() else source.parent) / "videos"
    out = Path(arguments.pretrained) if arguments.pretrained else videos / policy.name
    with output_to_stderr(), watch_command(), Console(stderr=True).status("Recording") as status:
        paths = film(
            policy,
            arguments.out or out,
            episodes=arguments.episodes,
            seconds=arguments.seconds,
            seed=arguments.seed,
            environment=arguments.environment,
            caption=arguments.caption,
            on_frame=lambda frames: status.update(f"Recording: {frames:,} frames"),
        )
    if arguments.json:
        print(json.dumps({"videos": [str(path) for path in paths]}))
    else:
        when = "" if policy.step is None else f", policy of step {policy.step:,}"
        print(f"Recorded {policy.name}{when}")
        print("\n".join(f"Wrote {path}" for path in paths))
    return 0

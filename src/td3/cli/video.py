"""td3 video"""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Annotated, Literal

import tyro

from td3.errors import UserError

MOST = 10_000  # a film of more would not fit into memory


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Film the best policy of a run, as mp4 and GIF. Works without a display.

    td3 video runs/my-run

    td3 video runs/my-run --agent 2 --episodes 3 --out walk

    td3 video --pretrained Hopper-v5
    """

    folder: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RUN")] = None
    """Run folder, or a policy's .safetensors file."""
    pretrained: str = ""
    """Instead of a run: the policy that comes with td3 for this task, e.g. HalfCheetah-v5."""
    out: Path | None = None
    """Files to write, without the ending; otherwise videos/ in the run, or the pretrained task's
    name, here."""
    agent: int | None = None
    """This agent of the run; otherwise the one that did best."""
    which: Literal["best", "last"] = "best"
    """Policy with the best evaluation, or the last one."""
    episodes: int = 1
    """Episodes to film, one after the other."""
    seconds: float = 30.0
    """At most so many seconds of each episode."""
    seed: int = 1_000_000
    """Seed of the episodes."""
    environment: str = ""
    """Task to film instead of the one in the policy file, e.g. my_package:MyEnv-v0. Needed if the
    task imports a Python module: a policy file alone never makes td3 import one."""
    json: bool = False
    """Print the paths as JSON."""


def run(arguments: Arguments) -> int:
    if not (1 <= arguments.episodes <= MOST and 0 < arguments.seconds <= MOST):
        raise UserError(f"--episodes and --seconds must be greater than 0, and at most {MOST:,}.")
    if arguments.out and not arguments.out.name:
        raise UserError(f"--out {arguments.out} names no file.")
    from rich.console import Console

    from td3.policy.load import load_policy
    from td3.policy.pretrained import run_or_pretrained
    from td3.policy.video import film

    source = run_or_pretrained(arguments.folder, arguments.pretrained)
    policy = load_policy(source, arguments.agent, which=arguments.which)
    command = f"td3 video {shlex.quote(str(source))} --environment {{task}}"
    policy.task_to_play(arguments.environment, command)
    videos = (source if source.is_dir() else source.parent) / "videos"
    out = Path(arguments.pretrained) if arguments.pretrained else videos / policy.name
    with Console(stderr=True).status("Filming") as status:
        paths = film(
            policy,
            arguments.out or out,
            episodes=arguments.episodes,
            seconds=arguments.seconds,
            seed=arguments.seed,
            tell=lambda frames: status.update(f"Filming: {frames:,} frames"),
            environment=arguments.environment,
        )
    if arguments.json:
        print(json.dumps({"videos": [str(path) for path in paths]}))
    else:
        when = "" if policy.step is None else f", policy of step {policy.step:,}"
        print(f"Filmed {policy.name}{when}")
        print("\n".join(f"Wrote {path}" for path in paths))
    return 0

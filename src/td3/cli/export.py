"""td3 export"""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Literal

import tyro

Format = Literal["numpy", "c", "js", "onnx", "torch", "hub"]


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Write a trained policy in another format, with recorded test vectors and a self-test.

    td3 export runs/my-run --to c --out controller
    td3 export runs/my-run/policy/agent-0.safetensors --to numpy js
    td3 export --pretrained HalfCheetah-v5 --to c --check
    """

    folder: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RUN")] = None
    """Run folder, or the .safetensors file of a policy."""
    to: tuple[Format, ...] = ()
    """Formats: numpy (one Python file), c (C99), js (an ES module), onnx, torch (torch.export),
    hub (all of them and a card: a Hugging Face model repository)."""
    pretrained: str = ""
    """Instead of a run: the pretrained policy for this task, e.g. HalfCheetah-v5."""
    out: Path | None = None
    """Folder to write to; default: exports/ in the run and the policy's name."""
    agent: int | None = None
    """Number of the agent; default: the best one."""
    which: Literal["best", "last"] = "best"
    """Policy with the best evaluation, or the last one."""
    variant: str = ""
    """Class of the policy's variant, module:Class. Only for policies with their own actor; td3
    imports no module that only a file names."""
    licence: str = "mit"
    """Licence in the card of --to hub: an identifier of the Hub, e.g. mit, apache-2.0, other."""
    film: Path | None = None
    """An mp4 for --to hub; default: the one in videos/ of the run, if there is one."""
    check: bool = False
    """Run the self-tests with 10,000 observations, where the runtimes are installed."""
    json: bool = False
    """Print the paths and results as JSON."""


def run(arguments: Arguments) -> int:
    from td3.exports.check import OBSERVATIONS, check_export
    from td3.exports.export import make_export
    from td3.exports.hub import Repository, run_of
    from td3.exports.vectors import VECTORS
    from td3.policy.load import load_policy
    from td3.policy.pretrained import run_or_pretrained

    source = run_or_pretrained(arguments.folder, arguments.pretrained)
    policy = load_policy(
        source, arguments.agent, which=arguments.which, variant=arguments.variant or None
    )
    made = make_export(
        policy,
        arguments.to,
        OBSERVATIONS if arguments.check else VECTORS,
        Repository(run_of(source), arguments.film, arguments.licence),
    )
    default = (source if source.is_dir() else Path()) / "exports" / policy.name
    paths = made.write(arguments.out or default)
    checks = check_export(made) if arguments.check else []
    if arguments.json:
        table = {
            "files": [str(path) for path in paths],
            "recorded": made.vectors.recorded,
            "float32_error": made.rounding,
            "checks": [own._asdict() for own in checks],
        }
        print(json.dumps(table))
    else:
        when = "" if policy.step is None else f", policy of step {policy.step:,}"
        print(f"Exported {policy.name}{when}")
        print("\n".join(f"Wrote {path}" for path in paths))
        if not made.vectors.recorded:
            print("The test vectors are random: the task cannot run here.")
        print("\n".join(f"{own.name}: {own.text}" for own in checks), end="\n" if checks else "")
    return 1 if any(own.passed is False for own in checks) else 0

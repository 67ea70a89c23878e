"""td3 export"""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from td3.text import printable

if TYPE_CHECKING:
    from td3.policy.policy import Policy

Format = Literal["numpy", "c", "js", "onnx", "torch", "hub"]


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Write a trained policy in another format, with recorded test vectors and a self-test.

    td3 export runs/my-run --to c --out controller
    td3 export runs/my-run/policy/agent-0.safetensors --to numpy js
    td3 export runs/my-run --every 20000 --to js
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
    every: int | None = None
    """Export the policies that the run kept, instead of one: the first one at or after each
    multiple of this many steps, and the best one, each into a folder of its own. Train with
    --evaluation.keep-every."""
    which: Literal["best", "last"] = "best"
    """Policy with the best evaluation, or the last one."""
    variant: str = ""
    """Class of the policy's variant, module:Class. Only for policies with their own actor; td3
    imports no module that only a file names."""
    environment: str = ""
    """Task that gives the test vectors instead of the one in the policy file, e.g.
    my_package:MyEnv-v0. Needed if the task imports a Python module; td3 imports no module that
    only a file names."""
    licence: str = "mit"
    """Licence in the card of --to hub: an identifier of the Hub, e.g. mit, apache-2.0, other."""
    film: Path | None = None
    """An mp4 for --to hub; default: the one in videos/ of the run, if there is one."""
    check: bool = False
    """Run the self-tests with 10,000 observations, where the runtimes are installed."""
    json: bool = False
    """Print the paths and results as JSON."""


def run(arguments: Arguments) -> int:
    from td3.api.export import export_folders
    from td3.environments.output import output_to_stderr
    from td3.environments.watch import watch_command
    from td3.exports.check import OBSERVATIONS, check_export
    from td3.exports.export import make_export
    from td3.exports.hub import Repository, run_of
    from td3.exports.vectors import VECTORS
    from td3.policy.pretrained import run_or_pretrained

    source = run_or_pretrained(arguments.folder, arguments.pretrained)
    options = arguments.agent, arguments.which, arguments.variant or None
    policies = export_folders(source, arguments.out, arguments.every, *options)
    repository = Repository(run_of(source), arguments.film, arguments.licence)
    tables, failed = {}, False
    for folder, policy in policies.items():
        count = OBSERVATIONS if arguments.check else VECTORS
        with output_to_stderr(), watch_command():
            made = make_export(policy, arguments.to, count, repository, arguments.environment)
        paths = made.write(folder)
        checks = check_export(made) if arguments.check else []
        failed |= any(own.passed is False for own in checks)
        tables[folder.name] = {
            "files": [str(path) for path in paths],
            "recorded": made.vectors.recorded,
            "float32_error": made.rounding,
            "checks": [own._asdict() for own in checks],
        }
        if not arguments.json:
            show(policy, tables[folder.name], made.vectors.problem)
    if arguments.json:
        print(json.dumps(tables if arguments.every else next(iter(tables.values()))))
    return 1 if failed else 0


def show(policy: "Policy", table: dict[str, Any], problem: str) -> None:
    """Print what was written and checked; `problem`: why the test vectors are random, or empty."""
    when = "" if policy.step is None else f", policy of step {policy.step:,}"
    print(f"Exported {policy.name}{when}")
    print("\n".join(f"Wrote {path}" for path in table["files"]))
    if problem:
        print(printable(f"The test vectors are random: {problem}."))
    for own in table["checks"]:
        print(f"{own['name']}: {own['text']}", flush=True)

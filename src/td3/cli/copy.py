"""td3 copy"""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Copy a run, as it was at one checkpoint, to a folder that td3 resume continues.

    Works also while the run trains. Every file is checked.

        td3 copy runs/my-run /backup/my-run
        td3 copy runs/my-run branch --at 500000   # from an earlier checkpoint
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Run folder."""
    target: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
    """New folder."""
    at: int | None = None
    """Step of the checkpoint; default: the newest."""
    json: bool = False
    """Print the result as JSON."""


def run(arguments: Arguments) -> int:
    from td3.run.copies import copy_run
    from td3.run.folder import read_config

    read_config(arguments.folder)  # refuses what is not a run
    step = copy_run(arguments.folder, arguments.target, arguments.at)
    if arguments.json:
        print(json.dumps({"run": str(arguments.target), "step": step}))
        return 0
    where = shlex.quote(str(arguments.target))
    print(f"Copied the checkpoint of step {step:,}. Continue with:  td3 resume {where}")
    return 0

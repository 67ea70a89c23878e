"""td3 play"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Arguments:
    """Show policies in MuJoCo's physics in a browser: push them, slow them down, compare them.

    The page is served to this machine only. Ctrl-C stops it. Needs no simulator.

        td3 play
        td3 play runs/my-run
        td3 play runs/my-run --every 20000
        td3 play early.safetensors best.safetensors
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN")] = ()
    """Run folders, or .safetensors files of policies; default: all pretrained policies."""
    pretrained: str = ""
    """The pretrained policy for this task, e.g. HalfCheetah-v5."""
    every: int = 0
    """Of a run, show only the policies that it kept every this many steps, and the best one: to
    watch it learn. Train with --evaluation.keep-every."""
    port: int = 0
    """Port; 0 chooses a free one."""
    browser: bool = True
    """Open the page in the default browser."""


def run(arguments: Arguments) -> int:
    from td3.play.site import finder, make_files
    from td3.play.sources import policies_to_play
    from td3.serving import LocalServer

    shown = policies_to_play(arguments.runs, arguments.pretrained, arguments.every)
    server = LocalServer(finder(make_files(shown)), arguments.port)
    server.show("Playground", arguments.browser)
    return 0

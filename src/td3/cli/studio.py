"""td3 studio"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from td3.errors import UserError


@dataclass(frozen=True)
class Arguments:
    """Show all runs in a folder in a browser, live: curves, metrics, warnings, comparisons.

    The page is served to this machine only and changes nothing. Ctrl-C stops it.

        td3 studio
        td3 studio ~/experiments
    """

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")] = Path("runs")
    """Folder with runs, or one run."""
    port: int = 0
    """Port; 0 chooses a free one."""
    reference: tuple[Path, ...] = ()
    """Published curves to compare with: CSV files (env, step, mean_return, std_return, seeds)."""
    browser: bool = True
    """Open the page in the default browser."""


def run(arguments: Arguments) -> int:
    from td3.report.reference import read_reference
    from td3.serving import LocalServer
    from td3.studio.site import Studio

    folder = arguments.folder
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {what}; name the folder that has your runs.")
    for path in arguments.reference:
        read_reference(path)  # a mistake is found now, not in the browser
    studio = Studio(folder.resolve(), {path.stem: path for path in arguments.reference})
    server = LocalServer(studio.find, arguments.port)
    server.show("Studio", arguments.browser)
    return 0

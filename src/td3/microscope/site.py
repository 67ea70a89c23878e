"""The addresses of the microscope: data for `td3 studio`, which also serves its page.

Nothing here writes into a run folder. A run is named by its path relative to the folder that the
server shows; links and paths that lead elsewhere are refused.
"""

import json
import math
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from td3.errors import RunStopped, UserError, first_line
from td3.microscope.answers import (
    answer_episode,
    answer_landscape,
    answer_returns,
    answer_run,
    answer_steps,
    answer_update,
)
from td3.microscope.background import Experiment
from td3.serving import Content

Query = Mapping[str, str]
Answer = Callable[[Path, Query], dict[str, Any]]
ANSWERS: dict[str, Answer] = {
    "microscope/run": answer_run,
    "microscope/update": answer_update,
    "microscope/landscape": answer_landscape,
    "microscope/episode": answer_episode,
    "microscope/returns": answer_returns,
    "microscope/steps": answer_steps,
}
JSON = "application/json; charset=utf-8"
experiment = Experiment()


def find(path: str, query: Query, root: Path) -> Content | None:
    """The content at an address that starts with "microscope"; None if there is none.

    Args:
        path: The address after the server's token.
        query: `run`, `agent`, `step` and what the address needs.
        root: The folder that contains the runs.
    """
    try:
        if path.startswith("microscope/tricks"):
            return as_json(answer_tricks(path, query))
        if path in ANSWERS:
            return as_json(ANSWERS[path](find_run(root, query.get("run", "")), query))
    except (UserError, RunStopped) as error:
        return as_json({"error": str(error)})
    except OSError as error:  # a run may disappear while it is read
        return as_json({"error": f"The run cannot be read ({error.strerror})."})
    except Exception as error:  # a method of a variant may raise anything
        return as_json({"error": f"{type(error).__name__}: {first_line(error)}"})
    return None


def find_run(root: Path, name: str) -> Path:
    """The run folder with this path relative to `root`; "." is `root` itself.

    Raises UserError for any other path.
    """
    if name == ".":
        return root
    parts = Path(name).parts if name else ()
    if not parts or "\0" in name or Path(name).is_absolute() or ".." in parts:
        raise UserError(f"There is no run {name[:200]!r} in this folder.")
    folder = root
    for part in parts:
        folder = folder / part
        if not is_own_folder(folder):
            raise UserError(f"There is no run {name[:200]!r} in this folder.")
    return folder


def is_own_folder(path: Path) -> bool:
    """Whether a path is a folder and no link. False for a name that no file can have."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def answer_tricks(path: str, query: Query) -> dict[str, Any]:
    """The state of the experiment, after starting or stopping it."""
    if path == "microscope/tricks/start":
        off = query.get("off", "").split(",")
        experiment.start(query.get("key", ""), query.get("task", ""), off)
    elif path == "microscope/tricks/stop":
        experiment.stop()
    elif path != "microscope/tricks":
        raise UserError("There is no such page.")
    return experiment.state()


def close() -> None:
    """End the experiment, if one runs. Also happens when this process ends."""
    experiment.stop()


def as_json(value: Any) -> Content:
    return Content(json.dumps(plain(value), allow_nan=False).encode(), JSON)


def plain(value: Any) -> Any:
    """Lists and numbers of six digits; what is not finite becomes null."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [plain(own) for own in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value

"""`td3 tune` from the first trial to the report."""

import dataclasses
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from td3.errors import RunStopped, UserError, cannot_write
from td3.files import remove_folder
from td3.launch.setup import choose_device
from td3.run.folder import folder_name, unused_path
from td3.run.lock import LOCK_FILE
from td3.signals import StopRequest
from td3.text import count
from td3.tuning.confirm import Confirmation, read_confirmation
from td3.tuning.display import TuneDisplay
from td3.tuning.journal import JOURNAL
from td3.tuning.page import write_page
from td3.tuning.plan import PLAN_FILE, Plan
from td3.tuning.results import (
    RECIPE,
    TABLE,
    TrialResult,
    rank,
    read_results,
    write_recipe,
    write_table,
)
from td3.tuning.search import Search, open_search

ROWS = {"cpu": 16, "cuda": 64}
"""Agents that train at the same time, unless the user chooses."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A search that ended, or was stopped."""

    folder: Path
    results: list[TrialResult]
    confirmation: Confirmation | None
    exit_code: int

    @property
    def best(self) -> TrialResult | None:
        """The complete trial with the highest value."""
        return next(iter(rank(self.results)), None)


def create_search(plan: Plan, folder: Path | None) -> tuple[Plan, Path]:
    """Complete and check a plan, and write it into a new folder."""
    if not plan.rows:
        device = choose_device(plan.config.device).type
        seeds = plan.config.seeds
        rows = min(max(seeds, ROWS[device]), seeds * plan.trials)
        plan = dataclasses.replace(plan, rows=rows)
    plan.checked()
    if folder is None:
        name = f"tune-{folder_name(plan.config.environment.id)}-{time.strftime('%Y%m%d-%H%M%S')}"
        folder = unused_path(Path("runs") / name)
    if (folder / PLAN_FILE).exists():
        raise UserError(
            f"{folder} already contains a search; continue it with 'td3 tune --resume {folder}' "
            "or choose another folder."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not an empty folder; choose another one.")
    folder.mkdir(parents=True, exist_ok=True)
    plan.write(folder)
    return plan, folder


def tune(
    plan: Plan,
    folder: Path,
    display: TuneDisplay,
    pruner: Any = None,
    is_new: bool = False,
    kind: Callable[..., Search] = Search,
) -> Outcome:
    """Run a search, or continue it, until its report is written.

    `is_new`: `create_search` has just made the folder; if the search is refused, it is removed.
    `kind` makes the search.
    """
    display.print(f"Folder: {folder}")
    try:
        with open_search(plan, folder, pruner, kind) as search:
            return run_search(search, display)
    except (RunStopped, OSError) as error:
        text = cannot_write(error) if isinstance(error, OSError) else str(error).rstrip(".")
        command = f"td3 tune --resume {shlex.quote(str(folder))}"
        raise RunStopped(f"{text}. Continue with: {command}") from error
    except torch.OutOfMemoryError as error:
        raise RunStopped(
            f"The GPU's memory is full with {plan.rows} agents; start again with a smaller --rows."
        ) from error
    except UserError:
        if is_new and not (folder / "populations").exists():  # nothing was trained
            remove_folder(folder, (PLAN_FILE, LOCK_FILE, JOURNAL))
        raise


def run_search(search: Search, display: TuneDisplay) -> Outcome:
    """Train the trials, write the results, confirm the best one."""
    plan, folder = search.plan, search.folder
    display.know(search.trials)
    search.sinks.append(display)
    with StopRequest(display.stopping) as stop:
        search.run(stop, display.watch)
    results = read_results(search.trials)
    display.close()
    best = next(iter(rank(results)), None)
    stored = search.space.encode(plan.config)
    default = search.space.decode(stored) if stored else None
    write_table(results, folder / TABLE)
    if best:
        write_recipe(plan, best, results, folder / RECIPE)
    confirmation, code = read_confirmation(folder), stop.exit_code
    if best is None or not is_current(confirmation, best):
        confirmation = None
    needed = best and plan.confirm and best.settings != default and not code
    if best and best.settings == default and not code:
        display.print("No trial was better than the settings that the search began with.")
    if best and needed and not confirmation:
        seeds = count(plan.confirm, "fresh seed")
        display.print(f"Confirming trial {best.number} and the default with {seeds} each.")
        confirmation, code = search.confirm(best, display.quiet)
    if not code:
        write_page(plan, search.trials, results, confirmation, folder)
    return Outcome(folder, results, confirmation, code)


def is_current(confirmation: Confirmation | None, best: TrialResult) -> bool:
    return confirmation is not None and confirmation.trial == best.number

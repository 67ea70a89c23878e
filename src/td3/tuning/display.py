"""What `td3 tune` shows while it runs: a table in a terminal, lines in a pipe."""

import time
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from td3.launch.display import LiveDisplay, close_at_end
from td3.signals import STOPPING
from td3.text import count, duration, number, printable
from td3.training.metrics import Record
from td3.tuning.plan import Plan
from td3.tuning.results import TrialResult, describe, rank, read_results, short, tally
from td3.tuning.rows import TrialTraining
from td3.tuning.trials import Trials

BEST, RUNNING = 5, 8  # lines
LEFT, COLUMN = 38, 11  # characters of the columns on the left, and of a setting
FINISHED = ("complete", "pruned", "diverged", "failed")


class TuneDisplay(LiveDisplay):
    """The best trials, those that train, and the time left."""

    def __init__(self, plan: Plan, quiet: bool = False) -> None:
        super().__init__(may_redraw=not quiet)
        self.plan, self.quiet = plan, quiet
        self.results: list[TrialResult] = []
        self.ended: set[int] = set()
        self.training: TrialTraining | None = None
        self.doing = "loading PyTorch"
        self.began, self.worked, self.at = time.monotonic(), 0, 0
        seeds, config = count(plan.config.seeds, "seed"), plan.config
        trials = count(plan.trials, "trial")
        self.title = f"{config.environment.id} · {trials} × {seeds} × {plan.steps:,} steps"
        self.open()
        if not self.redraws:
            self.print(self.title)

    def write(self, record: Record) -> None:
        """Show warnings, also with --quiet: a result may not be exact."""
        if record["kind"] == "remark":
            self.console.print(printable(record["message"]), soft_wrap=True, markup=False)

    def print(self, line: str) -> None:
        if not self.quiet:
            self.console.print(line, soft_wrap=True, markup=False)

    def know(self, trials: Trials) -> None:
        """Take the trials of a search that continues."""
        self.results = read_results(trials)
        self.ended = {own.number for own in self.results if own.state in FINISHED}
        if self.results:
            self.print(f"Continuing: {tally(self.results)}.")

    def watch(self, training: TrialTraining) -> None:
        """Follow a population."""
        self.training, self.at, self.doing = training, training.step, ""
        training.on_step, training.on_boundary = self.step, self.boundary
        self.results = read_results(training.trials)

    def step(self, step: int) -> None:
        """Called after every step of the population."""
        assert self.training
        self.worked += (step - self.at) * len(self.training.running())
        self.at = step

    def boundary(self) -> None:
        """Called after an evaluation: trials may have ended."""
        assert self.training
        before = rank(self.results)[:1]
        self.results = read_results(self.training.trials)
        best = rank(self.results)[:1]
        for own in self.results:
            if own.state not in FINISHED or own.number in self.ended:
                continue
            self.ended.add(own.number)
            if not self.redraws:
                self.print(self.line(own, best != before and best == [own]))

    def line(self, own: TrialResult, is_best: bool) -> str:
        """One trial that ended, in a pipe."""
        found = own.value if own.value is not None else next(reversed(own.means.values()), None)
        value = "" if found is None else f" {number(found)}"
        best = " (best so far)" if is_best else ""
        done = f"{len(self.ended):>5,}/{self.plan.trials:,}"
        left = f" · {duration(self.left)} left" if self.left else ""
        return (
            f"{done}  trial {own.number} {own.state} at step {own.steps:,}:{value}{best} · "
            f"{describe(own.settings)}{left}"
        )

    @property
    def left(self) -> float:
        """Estimate of the seconds until the last trial ends."""
        elapsed = time.monotonic() - self.began
        if not self.worked or not self.training:
            return 0.0
        ages = [own.steps for own in self.results if own.state in FINISHED]
        mean = sum(ages) / len(ages) if ages else self.plan.steps
        running = [self.training.age(slot) for slot in self.training.running()]
        waiting = self.plan.trials - len(self.training.trials.places)
        steps = waiting * mean + sum(max(mean - age, self.plan.every) for age in running)
        return float(steps * elapsed / self.worked)

    def render(self) -> Any:
        done = len(self.ended)
        bar = Table.grid(expand=True)
        bar.add_row(ProgressBar(self.plan.trials, done))
        head: list[Any] = [Text(self.title, "bold"), bar]
        parts = [tally(self.results)]
        elapsed = time.monotonic() - self.began
        if self.worked:
            speed = self.worked * self.plan.config.seeds / elapsed
            parts += [f"{speed:,.0f} agent-steps/s", f"{duration(self.left)} left"]
        lines = [Text(" · ".join(filter(None, parts)))]
        if self.doing:
            lines = [Text(f"{self.doing} …", "dim")]
        if self.stops:
            lines.append(Text(STOPPING, "dim"))
        return Group(*head, *lines, self.table())

    def table(self) -> Table:
        """The best trials and those that train, with as many settings as fit."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("trial", "state", "steps", "return"):
            table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
        fitting = max(0, (self.console.width - LEFT) // COLUMN)
        for parameter in self.plan.space.parameters[:fitting]:
            name = parameter.key.partition(".")[2].replace("_", " ")
            table.add_column(name, justify="right", max_width=COLUMN, vertical="bottom")
        best = rank(self.results)[:BEST]
        for place, own in enumerate(best):
            style = "bold green" if place == 0 else ""
            self.add(table, own, "best" if place == 0 else "complete", own.value, style)
        if not self.training:
            return table
        known = {own.number: own for own in self.results}
        running = self.training.running()
        for slot in running[:RUNNING]:
            if found := known.get(self.training.trial(slot)):
                latest = next(reversed(found.means.values()), None)
                self.add(table, found, "running", latest, "", self.training.age(slot))
        if len(running) > RUNNING:
            table.add_row("…", f"{len(running) - RUNNING} more", style="dim")
        return table

    def add(
        self,
        table: Table,
        own: TrialResult,
        state: str,
        value: float | None,
        style: str,
        age: int | None = None,
    ) -> None:
        shown = "" if value is None else number(value)
        steps = f"{own.steps if age is None else age:,}"
        settings = [short(value) for value in own.settings.values()]
        cells = [str(own.number), state, steps, shown, *settings]
        table.add_row(*cells[: len(table.columns)], style=style)


def open_tune_display(plan: Plan, quiet: bool) -> AbstractContextManager[TuneDisplay]:
    return close_at_end(TuneDisplay(plan, quiet))

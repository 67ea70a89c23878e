"""The progress display of a training run."""

import contextlib
import json
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.table import Column
from rich.text import Text

from td3.config import Config, describe_settings
from td3.files import bounded_lines, open_to_read
from td3.launch.display import LiveDisplay, close_at_end
from td3.signals import STOPPING
from td3.text import count, duration, printable

if TYPE_CHECKING:  # at run time it would load torch before anything is open_display
    from td3.training.metrics import Record

RANKED = 8  # settings of a grid to show while it trains
SECONDS_BETWEEN_DRAWS = 0.25
SECONDS_BETWEEN_LINES = 60  # in a pipe, unless an evaluation is the best so far
FIGURES = {  # key of the training records → label, format
    "critic_loss": ("critic loss", "{:.3g}"),
    "q": ("mean Q", "{:.3g}"),
    "saturated": ("saturated actions", "{:.0%}"),
}


def open_display(config: Config, quiet: bool) -> AbstractContextManager["Display"]:
    """The progress display of a run; a quiet one shows only why a result is not exact."""
    return close_at_end(QuietDisplay() if quiet else Display(config))


class Pace(ProgressColumn):
    """Steps per second and time left."""

    def render(self, task: Task) -> Text:
        if task.fields["took"]:
            return Text(task.fields["took"])
        if not task.speed:
            return Text("…")
        left = duration(task.time_remaining or 0) + " left"
        return Text(f"{task.speed:,.0f} steps/s · {task.fields['phase'] or left}")


class Display(LiveDisplay):
    """A progress bar with the most useful metrics; in a pipe, a line now and then."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.steps, self.agents = config.loop.steps, config.agents
        self.settings = [
            describe_settings(own) for own in config.combinations for _ in range(config.seeds)
        ]
        self.learns_from = config.loop.random_steps if config.loop.update == "step" else 0
        self.frozen: set[int] = set()
        self.figures: dict[str, dict[int, float | None]] = {}
        self.best: dict[int, float] = {}
        self.best_step: dict[int, int] = {}
        self.began, self.first, self.at = time.monotonic(), 0, 0
        self.next_draw = self.next_line = 0.0
        self.improved = False
        self.doing = "loading PyTorch"
        seeds = count(config.seeds, "seed") if config.seeds > 1 else f"seed {config.seed}"
        if config.grid:
            seeds += f" × {len(config.combinations)} settings = {config.agents} agents"
        self.title = printable(f"{config.environment.id} · {seeds}")
        self.bar = Progress(
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps ·"),
            Pace(table_column=Column(no_wrap=True)),
            console=self.console,
            speed_estimate_period=60,  # an episode with its updates may take that long
        )
        self.task = self.bar.add_task("", total=self.steps, took="", phase="")
        self.open()

    def step(self, step: int) -> None:
        """Called after every step; redraws at most four times a second."""
        before, self.at = self.at, step
        if before <= self.learns_from < step:  # random steps are faster: forget their speed
            self.bar.reset(self.task, completed=step)
        if (now := time.monotonic()) < self.next_draw:
            return
        self.next_draw, self.doing = now + SECONDS_BETWEEN_DRAWS, ""
        phase = "" if step > self.learns_from else "random actions"
        self.bar.update(self.task, completed=step, phase=phase)

    def write(self, record: "Record") -> None:
        """Show a record of the run, or take its metrics."""
        match record["kind"]:
            case "folder":
                self.print(f"Run folder: {record['message']}")
                if not self.redraws:
                    self.print(self.title)
            case "environments" | "plan":
                self.print(f"{record['message']}.")
            case "stopped":
                self.print(record["message"])
            case "remark":
                self.print(f"! {record['message']}")
            case "resumed":
                self.take_resumed(record)
            case "frozen":
                self.take_frozen(record)
            case "evaluation":
                self.take_evaluation(record)
            case _:
                for name in FIGURES:
                    self.figures.setdefault(name, {})[record["agent"]] = record[name]

    def print(self, line: str) -> None:
        """Print a line as it is: rich neither breaks nor formats it."""
        self.console.print(printable(line), soft_wrap=True, markup=False)

    def take_resumed(self, record: "Record") -> None:
        self.frozen = {agent for agent, frozen in enumerate(record["frozen"]) if frozen}
        self.best = {k: v for k, v in enumerate(record["best"]) if k not in self.frozen}
        self.best_step = record["best_steps"]
        resting = f", {len(self.frozen)} of {self.agents} agents frozen" if self.frozen else ""
        self.print(f"Continuing at step {record['step']:,}{resting}.")
        self.first = self.at = record["step"]
        self.bar.reset(self.task, completed=self.at)

    def take_frozen(self, record: "Record") -> None:
        """Report an agent that diverged, and leave it out of the metrics."""
        self.print(
            f"! Agent {record['agent']} ({record['name']}) diverged at step "
            f"{record['step']:,}: {record['message']}. It is frozen, its best policy is kept, "
            "and the others go on."
        )
        self.frozen.add(record["agent"])
        self.best.pop(record["agent"], None)
        for values in self.figures.values():
            values.pop(record["agent"], None)

    def take_evaluation(self, record: "Record") -> None:
        agent, now = record["agent"], time.monotonic()
        if agent in self.frozen:  # it diverged during this evaluation
            return
        self.figures.setdefault("evaluation", {})[agent] = record["mean_return"]
        self.figures.setdefault("success", {})[agent] = record.get("success")
        if record["best"]:
            self.best[agent], self.best_step[agent] = record["mean_return"], record["step"]
            self.improved = True
        if self.redraws or agent < max(set(range(self.agents)) - self.frozen):
            return
        if self.improved or now >= self.next_line or record["step"] >= self.steps:
            line = f"step {record['step']:>9,}  {self.summary()}"
            self.print(line + "".join(f" · best setting {own}" for own in self.ranking()[:1]))
            self.improved, self.next_line = False, now + SECONDS_BETWEEN_LINES

    def summary(self) -> str:
        """One line of metrics, averaged over the agents."""
        means = {
            name: sum(found) / len(found)
            for name, values in self.figures.items()
            if (found := [value for value in values.values() if value is not None])
        }
        parts = [
            f"{label} {style.format(means[name])}"
            for name, (label, style) in FIGURES.items()
            if name in means
        ]
        if "evaluation" in means:
            text = "best" if self.agents == 1 else "mean of the agents' best"
            text += f" {sum(self.best.values()) / max(len(self.best), 1):,.1f}"
            if self.agents == 1 and 0 in self.best_step:
                text += f" at {self.best_step[0]:,}"
            parts.insert(0, f"evaluation {means['evaluation']:,.1f} ({text})")
        if "success" in means:
            parts.insert(1, f"success {means['success']:.0%}")
        return " · ".join(parts)

    def ranking(self) -> list[str]:
        """The settings of a grid, best evaluation first, over the seeds that still train."""
        found: dict[str, list[float]] = {}
        for agent, value in self.figures.get("evaluation", {}).items():
            if value is not None and self.settings[agent]:
                found.setdefault(self.settings[agent], []).append(value)
        ranked = sorted(((sum(v) / len(v), own) for own, v in found.items()), reverse=True)
        return [f"{own}: {mean:,.1f}" for mean, own in ranked]

    def render(self) -> Any:
        doing = f"{self.doing} …" if self.doing else ""
        lines = [
            doing,
            self.summary().replace(" · ", "\n", 1),
            *self.ranking()[:RANKED],
            STOPPING if self.stops else "",
        ]
        text = Text("\n".join(filter(None, lines)), "dim")
        return Group(Text(self.title, "bold"), self.bar, text)

    def close(self) -> None:
        if self.live:
            if self.at == self.first:  # refused before the first step
                self.live.transient = True
            else:
                since = f" from step {self.first:,}" if self.first else ""
                took = f"took {duration(time.monotonic() - self.began)}{since}"
                self.bar.update(self.task, completed=self.at, took=took)
        super().close()


class QuietDisplay(Display):
    """Shows only why a result is not exact."""

    def __init__(self) -> None:
        LiveDisplay.__init__(self, may_redraw=False)

    def step(self, step: int) -> None: ...

    def write(self, record: "Record") -> None:
        if record["kind"] == "remark" and record["message"].startswith("not exact"):
            self.print(f"! {record['message']}")


def best_steps(metrics: Path) -> dict[int, int]:
    """Agent → step of its best evaluation, from the metrics file of a run."""
    found = {}
    with contextlib.suppress(ValueError), open(metrics, "rb", opener=open_to_read) as file:
        for line in bounded_lines(file):
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                record = json.loads(line)
                if record["kind"] == "evaluation" and record["best"]:
                    found[int(record["agent"])] = int(record["step"])
    return found

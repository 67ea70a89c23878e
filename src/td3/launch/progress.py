"""What a training run shows on the terminal."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from td3.config import Config, in_words
from td3.signals import STOPPING
from td3.training.metrics import Record

RANKED = 8  # settings of a grid to show while it trains


@contextlib.contextmanager
def displayed(config: Config, quiet: bool) -> Iterator["Display | None"]:
    """The progress display of a run, unless it is to be quiet."""
    shown = None if quiet else Display(config)
    try:
        yield shown
    finally:
        if shown:
            with contextlib.suppress(OSError, SystemExit):  # nobody looks any more
                shown.close()


class Display:
    """A progress bar with the figures that tell whether training goes well."""

    def __init__(self, config: Config) -> None:
        self.console = Console(stderr=True)
        self.steps, self.agents = config.loop.steps, config.agents
        self.settings = [in_words(own) for own in config.combinations for _ in range(config.seeds)]
        self.frozen: set[int] = set()
        seeds = f" · {config.seeds} seeds" if config.seeds > 1 else f" · seed {config.seed}"
        if config.grid:
            seeds += f" × {len(config.combinations)} settings = {config.agents} agents"
        self.bar = Progress(
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps · {task.fields[speed]}"),
            console=self.console,
        )
        self.title = config.environment.id + seeds
        self.task = self.bar.add_task("", total=self.steps, speed="…")
        self.began, self.first, self.at = time.monotonic(), 0, 0
        self.stops = False
        self.figures: dict[str, dict[int, float | None]] = {}
        self.best: dict[int, float] = {}
        self.best_step: dict[int, int] = {}
        self.pace = Pace(config.loop.random_steps if config.loop.update == "step" else 0)
        self.live = Live(console=self.console, refresh_per_second=4, get_renderable=self.render)
        # Notebooks are told line by line: rewriting a cell needs more than rich.
        self.redraws = self.console.is_terminal and not self.console.is_jupyter
        if self.redraws:
            self.live.start()

    def step(self, step: int) -> None:
        """Called at every step; redraws at most a few times a second."""
        self.at = step
        if self.pace.tick(step):
            text = "…"
            if self.pace.speed:
                left = f"{clock((self.steps - step) / self.pace.speed)} left"
                text = f"{self.pace.speed:,.0f} steps/s"
                text += f" · {left if step > self.pace.learns_from else 'random actions'}"
            self.bar.update(self.task, completed=step, speed=text)

    def stopping(self) -> bool:
        """Note that the run will stop; True where this is shown, as a line would be drawn over."""
        self.stops = True
        return self.redraws

    def write(self, record: Record) -> None:
        if record["kind"] == "folder":
            self.console.print(f"Run folder: {record['message']}", soft_wrap=True, markup=False)
            if not self.redraws:
                self.console.print(self.title, highlight=False, markup=False)
        elif record["kind"] in ("environments", "plan"):
            self.console.print(f"{record['message']}.", soft_wrap=True, highlight=False)
        elif record["kind"] == "remark":
            self.console.print(f"! {record['message']}", soft_wrap=True, markup=False)
        elif record["kind"] == "resumed":
            self.frozen = {agent for agent, frozen in enumerate(record["frozen"]) if frozen}
            self.best = {k: v for k, v in enumerate(record["best"]) if k not in self.frozen}
            resting = f", {len(self.frozen)} of {self.agents} agents frozen" if self.frozen else ""
            self.console.print(f"Continuing at step {record['step']:,}{resting}.", highlight=False)
            self.first = self.at = record["step"]
            self.bar.update(self.task, completed=self.at)
        elif record["kind"] == "frozen":
            self.freeze(record)
        elif record["kind"] == "evaluation":
            self.take_evaluation(record)
        else:
            for name in ("critic_loss", "q", "saturated", "episode_return"):
                self.figures.setdefault(name, {})[record["agent"]] = record[name]

    def freeze(self, record: Record) -> None:
        """Say who diverged, and leave it out of the figures."""
        self.console.print(
            f"! Agent {record['agent']} ({record['name']}) diverged at step "
            f"{record['step']:,}: {record['message']}. It is frozen, its best policy is kept, "
            "and the others go on.",
            soft_wrap=True,
            markup=False,
            highlight=False,
        )
        self.frozen.add(record["agent"])
        for values in self.figures.values():
            values.pop(record["agent"], None)
        self.best.pop(record["agent"], None)

    def take_evaluation(self, record: Record) -> None:
        agent = record["agent"]
        if agent in self.frozen:  # an evaluation that was under way when it diverged
            return
        self.figures.setdefault("evaluation", {})[agent] = record["mean_return"]
        if record["best"]:
            self.best[agent], self.best_step[agent] = record["mean_return"], record["step"]
        if not self.redraws and agent == max(set(range(self.agents)) - self.frozen):
            line = f"step {record['step']:>9,}  {self.summary()}"
            line += "".join(f" · best setting {own}" for own in self.ranking()[:1])
            self.console.print(line, highlight=False, soft_wrap=True, markup=False)

    def mean(self, name: str) -> float | None:
        values = [v for v in self.figures.get(name, {}).values() if v is not None]
        return sum(values) / len(values) if values else None

    def summary(self) -> str:
        """One line of figures, averaged over the agents."""
        parts = []
        if (value := self.mean("evaluation")) is not None:
            best = sum(self.best.values()) / max(len(self.best), 1)
            where = ""
            if self.agents == 1 and self.best_step:
                where = f" at {next(iter(self.best_step.values())):,}"
            whose = "best" if self.agents == 1 else "mean of the agents' best"
            parts.append(f"evaluation {value:,.1f} ({whose} {best:,.1f}{where})")
        for name, label, style in (
            ("critic_loss", "critic loss", "{:.3g}"),
            ("q", "mean Q", "{:.3g}"),
            ("saturated", "saturated actions", "{:.0%}"),
        ):
            if (value := self.mean(name)) is not None:
                parts.append(f"{label} {style.format(value)}")
        return " · ".join(parts) or "starting"

    def ranking(self) -> list[str]:
        """The settings of a grid, best evaluation first, over the seeds that still train."""
        found: dict[str, list[float]] = {}
        for agent, value in self.figures.get("evaluation", {}).items():
            if value is not None and self.settings[agent]:
                found.setdefault(self.settings[agent], []).append(value)
        ranked = sorted(((sum(v) / len(v), own) for own, v in found.items()), reverse=True)
        return [f"{own}: {mean:,.1f}" for mean, own in ranked]

    def render(self) -> Any:
        lines = [self.summary(), *self.ranking()[:RANKED], *([STOPPING] if self.stops else ())]
        return Group(Text(self.title, "bold"), self.bar, Text("\n".join(lines), "dim"))

    def close(self) -> None:
        if self.live.is_started:
            if self.at == self.first:  # refused before it began: nothing to look back at
                self.live.transient = True
            else:
                since = f" from step {self.first:,}" if self.first else ""
                took = f"took {clock(time.monotonic() - self.began)}{since}"
                self.bar.update(self.task, completed=self.at, speed=took)
            self.stops = False
            self.live.refresh()
            self.live.stop()


class Pace:
    """Steps per second over the last minute: an episode with its updates may take that long.
    Steps before learning are faster, and do not count once it has begun."""

    def __init__(self, learns_from: int) -> None:
        self.learns_from, self.speed = learns_from, 0.0
        self.marks: list[tuple[float, int]] = []
        self.next = 0.0

    def tick(self, step: int) -> bool:
        now = time.monotonic()
        if now < self.next:
            return False
        self.next = now + 0.25
        if self.marks and self.marks[0][1] < self.learns_from <= step:
            self.marks, self.speed = [], 0.0
        self.marks = [*self.marks[-240:], (now, step)]
        (first_time, first_step), (last_time, last_step) = self.marks[0], self.marks[-1]
        if last_time > first_time + 2:
            self.speed = (last_step - first_step) / (last_time - first_time)
        return True


def clock(seconds: float) -> str:
    minutes, seconds = divmod(int(min(seconds, 360_000)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

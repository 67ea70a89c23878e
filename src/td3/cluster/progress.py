"""The progress of all nodes in one display: a table in a terminal, lines in a pipe."""

import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from statistics import fmean
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from td3.cluster.driver import Population
from td3.launch.display import LiveDisplay, close_at_end
from td3.signals import STOPPING
from td3.text import count, duration, number, printable

LINES = 12
"""Populations in the table."""
STATES = ("running", "starting", "waiting", "finished", "stopped", "failed")
SECONDS_BETWEEN_LINES = 60.0
SPEED_SECONDS = 60.0
QUIET_KINDS = ("not exact",)


class ClusterDisplay(LiveDisplay):
    """Populations, their nodes, steps and returns; the speed of all together."""

    def __init__(self, title: str, quiet: bool = False, lines: bool = False) -> None:
        """`lines`: print lines also in a terminal, because another display redraws it."""
        super().__init__(may_redraw=not quiet and not lines)
        self.title, self.quiet = printable(title), quiet
        self.populations: Sequence[Population] = ()
        self.cluster = ""
        self.doing = "connecting to the cluster"
        self.samples: deque[tuple[float, int]] = deque()
        self.next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        self.open()

    def print(self, line: str) -> None:
        if not self.quiet:
            self.console.print(printable(line), soft_wrap=True, markup=False)

    def know(self, populations: Sequence[Population], cluster: str) -> None:
        """Take what is to be trained, and where."""
        self.populations, self.cluster, self.doing = populations, cluster, ""
        self.print(f"{self.title} · {cluster}" if not self.redraws else f"Cluster: {cluster}")

    def notify(self, kind: str, population: Population, facts: dict[str, Any]) -> None:
        """Show what happened to a population."""
        name = f"Population {population.name}"
        match kind:
            case "placed":
                self.print(f"{name} starts on {population.node}.")
            case "lost":
                saved = facts["saved"]
                where = f"step {saved:,}" if saved else "its newest checkpoint"
                then = f"continues from {where} elsewhere"
                if facts["stops"]:
                    then = f"stops at {where}"
                self.print(f"! {name}: {facts['message']}; it {then}.")
            case "failed":
                self.print(f"! {name} failed: {population.message}")
            case "finished":
                self.print(f"{name} has finished{self.result(population)}.")
            case "stopped":
                self.print(f"{name} {describe_saved(population.saved)}.")
            case "note":
                self.note(name, facts["record"])

    def note(self, name: str, record: dict[str, Any]) -> None:
        """Show a remark of a run."""
        message = str(record["message"])
        if record["kind"] == "frozen":
            message = f"agent {record['agent']} diverged at step {record['step']:,}: {message}"
        line = f"! {name}: {message}"
        if self.quiet and message.startswith(QUIET_KINDS):
            self.console.print(printable(line), soft_wrap=True, markup=False)
        self.print(line)

    def result(self, population: Population) -> str:
        if not population.returns:
            return ""
        return f", return {number(fmean(population.returns.values()))}"

    def tick(self) -> None:
        """Called several times a second."""
        now = time.monotonic()
        self.samples.append((now, self.done))
        while now - self.samples[0][0] > SPEED_SECONDS:
            self.samples.popleft()
        if not self.redraws and now >= self.next_line:
            self.next_line = now + SECONDS_BETWEEN_LINES
            self.print(self.summary())

    @property
    def done(self) -> int:
        """Steps of all agents."""
        return sum(own.step * own.config.agents for own in self.populations)

    @property
    def total(self) -> int:
        return sum(own.config.loop.steps * own.config.agents for own in self.populations)

    @property
    def speed(self) -> float:
        """Agent-steps per second of the last minute."""
        if len(self.samples) < 2:
            return 0.0
        (then, before), (now, after) = self.samples[0], self.samples[-1]
        return max(0.0, (after - before) / (now - then)) if now > then else 0.0

    def summary(self) -> str:
        """One line about all populations."""
        states = Counter(own.state for own in self.populations)
        parts = [", ".join(f"{states[name]:,} {name}" for name in STATES if states[name])]
        parts.append(f"{self.done:,} of {self.total:,} agent-steps")
        if speed := self.speed:
            left = duration((self.total - self.done) / speed)
            parts.append(f"{speed:,.0f} agent-steps/s · {left} left")
        if returns := [value for own in self.populations for value in own.returns.values()]:
            parts.append(f"mean return {number(fmean(returns))}")
        return " · ".join(parts)

    def render(self) -> Any:
        lines: list[Any] = [
            Text(f"{self.title}{f' · {self.cluster}' * bool(self.cluster)}", "bold")
        ]
        if self.doing:
            lines.append(Text(f"{self.doing} …", "dim"))
        if self.populations:
            bar = ProgressBar(total=max(1, self.total), completed=self.done)
            lines += [Padding(bar), Text(self.summary()), self.table()]
        if self.stops:
            lines.append(Text(STOPPING, "dim"))
        return Group(*lines)

    def table(self) -> Table:
        """The populations that train, then the others, as many as fit."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("population", "node", "agents", "step", "return", "state"):
            right = name in ("agents", "step", "return")
            table.add_column(name, justify="right" if right else "left", no_wrap=True)
        ranked = sorted(self.populations, key=lambda own: STATES.index(own.state))
        for own in ranked[:LINES]:
            shown = number(fmean(own.returns.values())) if own.returns else ""
            cells = [own.name, own.node, str(own.config.agents), f"{own.step:,}", shown]
            table.add_row(*cells, own.doing or own.state)
        if len(ranked) > LINES:
            table.add_row("…", f"{len(ranked) - LINES:,} more", style="dim")
        return table


def describe_saved(step: int | None) -> str:
    """How far a population is that was stopped; it may have been loading."""
    return "stopped before its first checkpoint" if step is None else f"is saved at step {step:,}"


def open_cluster_display(title: str, quiet: bool) -> AbstractContextManager[ClusterDisplay]:
    return close_at_end(ClusterDisplay(title, quiet))


def describe_cluster(nodes: int, cpus: float, gpus: float) -> str:
    parts = [count(nodes, "node"), f"{cpus:g} CPUs"]
    return ", ".join([*parts, f"{gpus:g} GPUs"] if gpus else parts)

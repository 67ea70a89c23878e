"""Where the records of a training go: metrics.jsonl, events.jsonl, trackers and the display."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from td3.files import JsonLines
from td3.run.folder import RunFolder
from td3.training.metrics import Record, Sink
from td3.training.population import Population


class Recorder:
    """Writes records into the run folder and to every sink."""

    def __init__(self, folder: Path, population: Population, sinks: Sequence[Sink] = ()) -> None:
        self.run, self.population, self.sinks = RunFolder(folder), population, sinks
        self.metrics = JsonLines(self.run.metrics)
        self.restart_clock(step=0)

    def write(self, record: Record) -> None:
        """A result of one agent: into metrics.jsonl and to the sinks."""
        record |= self.population.facts(record["agent"])
        self.metrics.write(record)
        self.show(record)

    def show(self, record: Record) -> None:
        """Only to the sinks; not kept in the run folder."""
        for sink in self.sinks:
            sink.write(record)

    def event(self, event: str, **facts: Any) -> None:
        """Only into events.jsonl, with the time."""
        self.run.event(event, **facts)

    def warn(self, step: int, message: str) -> None:
        """A warning: into events.jsonl and to the sinks."""
        self.event("warning", step=step, message=message)
        self.show({"kind": "remark", "message": message})

    def restart_clock(self, step: int) -> None:
        self.clock = (time.monotonic(), step)

    def note_speed(self, step: int) -> None:
        """Write the speed since the last call into events.jsonl."""
        then, before = self.clock
        self.restart_clock(step)
        speed = (step - before) / max(self.clock[0] - then, 1e-9)
        self.event("progress", step=step, steps_per_second=round(speed, 1))

    def close(self) -> None:
        for file in (self.metrics, self.run.events):
            with suppress(OSError):  # an environment may have closed its descriptor
                file.close()

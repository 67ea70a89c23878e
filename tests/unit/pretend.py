"""CUDA graphs that are only functions called again: all but the device."""

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch

from td3.accelerate import captured, sending, traffic
from td3.accelerate.graph import Work


class Device:
    """Does what it was asked for at once, or, if `late`, not before somebody waits for it."""

    def __init__(self, late: bool) -> None:
        self.late = late
        self.queue: deque[Callable[[], None]] = deque()
        self.asked = self.done = 0
        self.capturing = False

    def ask(self, work: Callable[[], None]) -> None:
        self.queue.append(work)
        self.asked += 1
        if not self.late:
            self.catch_up()

    @torch.no_grad()
    def catch_up(self, until: int | None = None) -> None:
        while self.queue and (until is None or self.done < until):
            self.queue.popleft()()
            self.done += 1


class Graph:
    def __init__(self, device: Device, works: tuple[Work, ...]) -> None:
        self.device, self.works = device, works

    def replay(self) -> None:
        for work in self.works:
            self.device.ask(work.do)


class Event:
    """Recorded by the host, or, if `external`, by the device within a graph."""

    def __init__(self, device: Device, external: bool) -> None:
        self.device, self.external = device, external
        self.after, self.passed = 0, False

    def record(self) -> None:
        self.after, self.passed = self.device.asked, not self.device.capturing

    def synchronize(self) -> None:
        if self.external:
            while self.device.queue and not self.passed:
                self.device.catch_up(self.device.done + 1)
            assert self.passed
            self.passed = False
        else:
            self.device.catch_up(self.after)

    wait = synchronize


def pretend_graphs(monkeypatch: pytest.MonkeyPatch, late: bool = False) -> None:
    """Let `Captured` do all that it does, on a CPU."""
    device = Device(late)

    @torch.no_grad()
    def capture(*works: Work) -> Graph:
        device.catch_up()
        device.capturing = True
        for work in works:
            work.try_out()
        device.capturing = False
        return Graph(device, works)

    def pageable(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    for module in (captured, traffic):
        monkeypatch.setattr(module, "Graph", capture)
    for module in (traffic, sending):
        monkeypatch.setattr(module, "pinned", pageable)
    monkeypatch.setattr(torch.cuda, "Event", lambda external=False: Event(device, external))
    monkeypatch.setattr(torch.cuda, "Stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda of=None: device.catch_up())

"""Simulate CUDA streams, events and graphs on a CPU; a graph is a function to call again."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import torch

from td3.execution.gpu import image_learner, learner, random_upload, transfers


class Stream:
    """Runs its work immediately or, if `late`, only when something waits for it."""

    def __init__(self, late: bool) -> None:
        self.late = late
        self.queue: deque[Callable[[], None]] = deque()
        self.submitted = self.done = 0

    def submit(self, work: Callable[[], None]) -> None:
        self.queue.append(work)
        self.submitted += 1
        if not self.late:
            self.catch_up()

    @torch.no_grad()
    def catch_up(self, until: int | None = None) -> None:
        while self.queue and (until is None or self.done < until):
            self.queue.popleft()()
            self.done += 1


class Device:
    """Streams, and the current one.

    If `late`, every stream is as late as possible; with `others_early`, only the first one is.
    """

    def __init__(self, late: bool, others_early: bool) -> None:
        self.others_late = late and not others_early
        self.current = Stream(late)
        self.streams = [self.current]

    def stream(self, priority: int = 0) -> Stream:
        self.streams.append(Stream(self.others_late))
        return self.streams[-1]

    @contextmanager
    def use(self, stream: Stream) -> Iterator[None]:
        before = self.current
        self.set_current(stream)
        try:
            yield
        finally:
            self.set_current(before)

    def set_current(self, stream: Stream) -> None:
        self.current = stream

    def catch_up(self) -> None:
        for stream in self.streams:
            stream.catch_up()


class Graph:
    def __init__(self, device: Device, function: Callable[[], None]) -> None:
        self.replay = lambda: device.current.submit(function)


class Event:
    def __init__(self, device: Device) -> None:
        self.device, self.stream, self.after = device, device.current, 0

    def record(self) -> None:
        self.stream, self.after = self.device.current, self.device.current.submitted

    def synchronize(self) -> None:
        self.stream.catch_up(self.after)

    def wait(self) -> None:
        self.device.current.submit(partial(self.stream.catch_up, self.after))


def simulate_device(
    monkeypatch: pytest.MonkeyPatch, late: bool = False, others_early: bool = False
) -> None:
    """Make `GpuLearner` and `GpuImageLearner` work on a CPU."""
    device = Device(late, others_early)

    def capture(
        function: Callable[[], None], warm_up: Callable[[], None], stream: Stream | None = None
    ) -> Graph:
        device.catch_up()
        with torch.no_grad():
            warm_up()
        return Graph(device, function)

    def pageable(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    for module in (learner, image_learner, transfers):
        monkeypatch.setattr(module, "Graph", capture)

    def copy_async(target: torch.Tensor, source: torch.Tensor) -> None:
        device.current.submit(partial(target.copy_, source))

    for module in (image_learner, transfers, random_upload):
        monkeypatch.setattr(module, "pinned_zeros", pageable)
    for module in (image_learner, random_upload):
        monkeypatch.setattr(module, "copy_async", copy_async)
    monkeypatch.setattr(torch.cuda, "Event", lambda: Event(device))
    monkeypatch.setattr(torch.cuda, "Stream", device.stream)
    monkeypatch.setattr(torch.cuda, "stream", device.use)
    monkeypatch.setattr(torch.cuda, "set_stream", device.set_current)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: device.current)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda of=None: device.catch_up())

"""CUDA graphs that are only functions called again: all but the device."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch

from td3.accelerate import captured, sending, traffic


class Pretended:
    """Stands for a CUDA graph, and for an event that has always happened."""

    def __init__(self, function: Callable[[], None] = lambda: None) -> None:
        self.function = function

    @torch.no_grad()
    def replay(self) -> None:
        self.function()

    def record(self) -> None: ...

    def wait(self) -> None: ...

    def synchronize(self) -> None: ...


def pretend_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `Captured` do all that it does, on a CPU."""

    def pretend(function: Callable[[], None], warm_up: Callable[[], None]) -> Pretended:
        with torch.no_grad():
            warm_up()
        return Pretended(function)

    def pageable(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype)

    for module in (captured, traffic):
        monkeypatch.setattr(module, "Graph", pretend)
    for module in (traffic, sending):
        monkeypatch.setattr(module, "pinned", pageable)
    monkeypatch.setattr(torch.cuda, "Event", Pretended)
    monkeypatch.setattr(torch.cuda, "Stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)

"""CUDA graphs that keep what they work on."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch


class Work(NamedTuple):
    """Something that the device can be asked for, and the same without consequences."""

    do: Callable[[], None]
    try_out: Callable[[], None]


class Graph:
    """What some works ask of the device, one after the other, recorded after they were tried out.

    It keeps the works, and with them all tensors that they use: a recording knows addresses.
    """

    def __init__(self, *works: Work) -> None:
        self.works = works
        recorded, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad():
            with torch.cuda.stream(stream):
                for work in (*works, *works):
                    work.try_out()
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(recorded, pool=shared_pool()):
                for work in works:
                    work.do()
        self.replay = recorded.replay


@cache
def shared_pool() -> Any:
    """Memory for what graphs compute in passing: they run one after the other."""
    return torch.cuda.graph_pool_handle()

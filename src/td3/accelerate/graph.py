"""A CUDA graph that keeps what it works on."""

from collections.abc import Callable

import torch


class Graph:
    """What a function asks of the device, recorded after it has run twice off the record.

    It keeps the function, and with it all tensors that it works on: a recording knows addresses.
    """

    def __init__(self, function: Callable[[], None], warm_up: Callable[[], None]) -> None:
        self.function = function
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            warm_up()
            warm_up()
        torch.cuda.current_stream().wait_stream(stream)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            function()
        self.replay = recorded.replay

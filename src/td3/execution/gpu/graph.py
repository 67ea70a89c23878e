"""A CUDA graph that keeps what it works on."""

from collections.abc import Callable

import torch


class Graph:
    """What a function asks of the device, recorded after it has run twice off the record.

    It keeps the function, and with it all tensors that it works on: a recording knows addresses.
    """

    def __init__(
        self,
        function: Callable[[], object],
        warm_up: Callable[[], object],
        stream: torch.cuda.Stream | None = None,
    ) -> None:
        """`stream`: where it will run, if beside other graphs; what cuBLAS keeps there is apart."""
        self.function = function
        aside = stream or torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            warm_up()
            warm_up()
        torch.cuda.current_stream().wait_stream(aside)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded, stream=stream):
            function()
        self.replay = recorded.replay

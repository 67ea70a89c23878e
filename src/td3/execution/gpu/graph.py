"""A CUDA graph that keeps its tensors alive."""

from collections.abc import Callable

import torch


class Graph:
    """The device work of a function, captured after two warm-up calls.

    It keeps the function and so all its tensors, because a CUDA graph only knows addresses.
    """

    def __init__(
        self,
        function: Callable[[], object],
        warm_up: Callable[[], object],
        stream: torch.cuda.Stream | None = None,
    ) -> None:
        """`stream`: its own stream (and cuBLAS workspace) if other graphs run at the same time."""
        self.function = function
        side_stream = stream or torch.cuda.Stream()
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            warm_up()
            warm_up()
        torch.cuda.current_stream().wait_stream(side_stream)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, stream=stream):
            function()
        self.replay = captured.replay

"""What all displays in a terminal share: they redraw themselves, and they end with their work."""

import contextlib
from collections.abc import Iterator
from typing import Any, TypeVar

from rich.console import Console
from rich.live import Live


class LiveDisplay:
    """A display that redraws itself in a terminal; elsewhere subclasses print lines."""

    def __init__(self, may_redraw: bool = True) -> None:
        self.console = Console(stderr=True, highlight=False)
        # In a notebook rich cannot rewrite a cell without further packages.
        can_redraw = self.console.is_terminal and not self.console.is_jupyter
        self.redraws = may_redraw and can_redraw
        self.stops, self.doing = False, ""
        self.live: Live | None = None

    def open(self) -> None:
        """Begin to redraw, in a terminal."""
        if self.redraws:
            self.live = Live(console=self.console, refresh_per_second=4, get_renderable=self.render)
            self.live.start()

    def render(self) -> Any:
        raise NotImplementedError

    def phase(self, doing: str) -> None:
        """Show what happens before the first step."""
        self.doing = doing

    def stopping(self) -> bool:
        """Note that the run will stop; True if the display shows it, so that no line is needed."""
        self.stops = True
        return self.redraws

    def close(self) -> None:
        if self.live:
            self.stops, self.doing = False, ""
            self.live.refresh()
            self.live.stop()
            self.live = None


D = TypeVar("D", bound=LiveDisplay)


@contextlib.contextmanager
def close_at_end(display: D) -> Iterator[D]:
    try:
        yield display
    finally:
        with contextlib.suppress(OSError, SystemExit):  # the terminal is gone
            display.close()

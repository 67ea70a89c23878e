"""Numbers and values as short text, and Markdown: for messages, tables and reports."""

import html
import re
import reprlib
from collections.abc import Sequence
from typing import Any

UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
DURATION = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in UNITS))


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that could move the cursor, hide text or give orders to a terminal."""


def printable(text: str) -> str:
    """The text with control characters as escapes such as `\\x1b`, for a terminal."""
    return CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


SHORT = reprlib.Repr()
SHORT.maxlevel, SHORT.maxstring, SHORT.maxother = 3, 100, 100


def shown(value: Any) -> str:
    """A value from a file, for a message: short, and without control characters."""
    return SHORT.repr(value)


def count(amount: int, noun: str) -> str:
    """`1 seed`, `1,000 seeds`."""
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def number(value: float, digits: int = 3) -> str:
    """At least this many significant digits: `0.0123`, `12.3`, `1,234`, `1.23e+12`."""
    whole = 10 ** (digits - 1) <= abs(value) < 1e9
    return f"{value:,.0f}" if whole else f"{value:.{digits}g}"


def data_size(amount: float) -> str:
    """`1.2 GB`, `34 MB`, `5.6 MB`, `789,000 bytes`."""
    if amount >= 1e9:
        return f"{amount / 1e9:.1f} GB"
    digits = 0 if amount >= 1e7 else 1
    return f"{amount / 1e6:.{digits}f} MB" if amount >= 1e6 else f"{amount:,.0f} bytes"


def duration(seconds: float) -> str:
    """The two largest units: `3 h 5 min`, `2 min 7 s`, `12 s`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def parse_duration(text: str) -> float | None:
    """The seconds of a duration such as 90s, 30m, 2h or 1h30m; None if it is none or zero."""
    found = DURATION.fullmatch(text.replace(" ", "").lower())
    if not found:
        return None
    parts = zip(found.groups(), UNITS.values(), strict=True)
    return sum(float(amount) * size for amount, size in parts if amount) or None


def escape(text: str) -> str:
    """Text that Markdown shows unchanged. Line breaks become spaces: they would end a table."""
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1
) -> str:
    """A Markdown table of Markdown cells; the columns after `text_columns` are right-aligned."""
    rule = ["---" if column < text_columns else "---:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))

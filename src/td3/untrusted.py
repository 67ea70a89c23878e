"""JSON from a file that may be damaged, or made by someone else.

`parse_json` bounds length, depth and digits. A `Schema` then checks every value before it is used:

    COUNTERS = table({"step": integer(), "best": items(nullable(number()))})
    COUNTERS(parse_json(data), "counters")  # raises Malformed("counters.step must be …, got …")
"""

import itertools
import json
import math
import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 2**26  # bytes; the largest manifest, of thousands of agents, has a few megabytes
DEEPEST = 64
MOST_PARTS, MOST_ITEMS = 2**18, 2**21  # lists and tables, and what is in them
MOST_DIGITS = 40  # the state of a random stream has 128 bits
LARGEST = 2**63 - 1
BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[^][{}"]+', re.DOTALL)

Schema = Callable[[Any, str], None]


class Malformed(ValueError):
    """A file does not have the expected content; the message names the place."""


def parse_json(data: bytes, longest: int = LONGEST) -> Any:
    """The value of a JSON text. Raises Malformed for what is no JSON, or too large to be ours."""
    if len(data) > longest:
        raise Malformed(f"it has {len(data):,} bytes, more than {longest:,}")
    if data.count(b"[") + data.count(b"{") > MOST_PARTS or data.count(b",") > MOST_ITEMS:
        raise Malformed(f"it has more than {MOST_PARTS:,} lists, or {MOST_ITEMS:,} values")
    depths = itertools.accumulate(1 if c in b"[{" else -1 for c in BRACKETS.sub(b"", data))
    if max(depths, default=0) > DEEPEST:
        raise Malformed(f"it is nested deeper than {DEEPEST} levels")
    try:
        return json.loads(data, parse_int=parse_integer)
    except Malformed:
        raise
    except ValueError as error:
        raise Malformed("it is not JSON") from error


def parse_integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise Malformed(f"it contains a number of {len(digits):,} digits")
    return int(digits)


def refuse(where: str, expected: str, value: Any) -> Malformed:
    return Malformed(f"{where} must be {expected}, got {reprlib.repr(value)}")


def anything(value: Any, where: str) -> None:
    """Accept every value."""


def integer(least: int = 0, most: int = LARGEST) -> Schema:
    def check(value: Any, where: str) -> None:
        if type(value) is not int or not least <= value <= most:
            bound = f"of {least} or more" if most == LARGEST else f"from {least} to {most}"
            raise refuse(where, f"an integer {bound}", value)

    return check


def number(value: Any, where: str) -> None:
    """A finite number."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise refuse(where, "a finite number", value)


def boolean(value: Any, where: str) -> None:
    if type(value) is not bool:
        raise refuse(where, "true or false", value)


def text(pattern: str = ".*", what: str = "a text") -> Schema:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.DOTALL | re.ASCII):
            raise refuse(where, what, value)

    return check


def nullable(schema: Schema) -> Schema:
    def check(value: Any, where: str) -> None:
        if value is not None:
            schema(value, where)

    return check


def items(schema: Schema, count: int | None = None) -> Schema:
    """A list of such values, of this length if one is given."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or count not in (None, len(value)):
            raise refuse(where, "a list" if count is None else f"a list of {count}", value)
        for position, item in enumerate(value):
            schema(item, f"{where}[{position}]")

    return check


def mapping(schema: Schema = anything, keys: Schema = anything) -> Schema:
    """A table with such values and, if given, such keys."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise refuse(where, "a table", value)
        for key, item in value.items():
            keys(key, f"the name {reprlib.repr(key)} in {where}")
            schema(item, f"{where}.{key[:40]}")

    return check


def table(required: Mapping[str, Schema], optional: Mapping[str, Schema] = {}) -> Schema:
    """A table with these keys. Others are ignored: a newer version may have written them."""

    def check(value: Any, where: str) -> None:
        mapping()(value, where)
        for key, schema in required.items():
            if key not in value:
                raise Malformed(f"{where} has no {key}")
            schema(value[key], f"{where}.{key}")
        for key, schema in optional.items():
            if key in value:
                schema(value[key], f"{where}.{key}")

    return check

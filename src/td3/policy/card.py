"""The card of a policy file, checked before it is used: the file may come from anyone.

The card implies the shape of every tensor. These are compared with the file's header before tensors
are read or networks are made, so a small file cannot ask for much memory.
"""

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Any

from td3.layout import has_images, layout_size, unstack_layout
from td3.untrusted import (
    Malformed,
    Schema,
    boolean,
    integer,
    items,
    mapping,
    nullable,
    number,
    refuse,
    table,
    text,
)

Shape = tuple[int, ...]

LARGEST = 2**31  # numbers in an observation, and width of a layer
SPARE = (
    2**20
)  # weights that the networks of a variant may have besides four times those in the file

size = integer(1, LARGEST)
start = integer(-(2**62), 2**62)


def nested(schema: Schema) -> Schema:
    """Numbers in lists of lists."""

    def check(value: Any, where: str) -> None:
        (items(check) if isinstance(value, list) else schema)(value, where)

    return check


def image(value: Any, where: str) -> None:
    table({"image": items(size)}, {"low": number, "high": number})(value, where)
    sides, low, high = value["image"], value.get("low", 0), value.get("high", 255)
    if len(sides) not in (2, 3) or not low < high:
        raise refuse(where, "an image of two or three sides, low below high", value)


def choices(value: Any, where: str) -> None:
    table({"discretes": nested(size), "starts": nested(start)})(value, where)
    if sides(value["discretes"], where) != sides(value["starts"], where):
        raise refuse(where, "as many starts as choices", value)


def sides(value: Any, where: str) -> Shape:
    """The shape of nested lists. Raises Malformed if it is not the same everywhere."""
    if not isinstance(value, list):
        return ()
    inner = {sides(item, where) for item in value}
    if len(inner) > 1:
        raise refuse(where, "lists of equal length", value)
    return (len(value), *next(iter(inner), ()))


def part(value: Any, where: str) -> None:
    """A layout without a stack, see `layout.py`."""
    mapping()(value, where)
    kinds = value.keys() & PARTS.keys()
    if len(kinds) != 1 or "stack" in value:
        raise refuse(where, f"one of {', '.join(PARTS)}", value)
    PARTS[kinds.pop()](value, where)


PARTS: dict[str, Schema] = {
    "box": table({"box": items(integer(0, LARGEST))}),
    "image": image,
    "discrete": table({"discrete": size, "start": start}),
    "discretes": choices,
    "dict": table({"dict": mapping(part)}),
    "tuple": table({"tuple": items(part)}),
}
STACK = table({"stack": integer(1, 1000), "of": part})


def observation(value: Any, where: str) -> None:
    mapping()(value, where)
    (part if value.keys() & PARTS.keys() else STACK)(value, where)
    if not 1 <= layout_size(value) <= LARGEST:
        raise refuse(where, "an observation of 1 to 2,147,483,648 numbers", value)


def action(value: Any, where: str) -> None:
    dtype = text("float(16|32|64|128)", "a float type")
    bounds = items(number)
    facts: dict[str, Schema] = {"low": bounds, "high": bounds, "shape": items(size), "dtype": dtype}
    table(facts)(value, where)
    low, high = value["low"], value["high"]
    if not len(low) == len(high) == prod(value["shape"]):
        raise Malformed(f"{where} has {len(low)} low and {len(high)} high bounds for its shape")
    if any(a > b for a, b in zip(low, high, strict=True)):
        raise Malformed(f"{where} has a low bound above a high one")


CARD = table(
    {
        "environment": table({"id": text(".+")}),
        "observation": observation,
        "action": action,
        "hidden_sizes": items(size),
    },
    {
        "channels": items(integer(1, 2**16)),
        "features": size,
        "normalize_observations": boolean,
        "step": nullable(integer()),
        "mean_return": nullable(number),
        "max_steps": nullable(integer(1)),
        "settings": mapping(number, text("[A-Za-z_][A-Za-z0-9_.]*")),
        "tested": table({}, {"mean_return": number, "std_return": number, "episodes": integer()}),
        "variant": table({"name": text("[A-Za-z_][A-Za-z0-9_.:]*")}),
    },
)


def check_card(card: Any, shapes: Mapping[str, Shape]) -> None:
    """Check a card, and that tensors of these shapes fit it. Raises Malformed."""
    CARD(card, "its card")
    expected = network_shapes(card)
    if "variant" in card:  # only its class knows its tensors
        needed, stored = sum(map(prod, expected.values())), sum(map(prod, shapes.values()))
        if needed > SPARE + 4 * stored:
            raise Malformed(
                f"its card describes networks of {needed:,} weights, but it has {stored:,} numbers"
            )
        return
    if any(name.startswith("normalizer.") for name in shapes):
        states = layout_size(card["observation"])
        expected |= {f"normalizer.{name}": (1, states) for name in ("mean", "spread")}
        expected["normalizer.count"] = (1, 1)
    for name in sorted(expected.keys() | shapes.keys()):
        found, wanted = (own.get(name, "missing") for own in (shapes, expected))
        if found != wanted:
            what = f"{found}, not {wanted}" if name in expected else "unknown"
            raise Malformed(f"its tensor {name[:60]!r} is {what}")


def network_shapes(card: Mapping[str, Any]) -> dict[str, Shape]:
    """The tensors of td3's own actor, and of the encoder for images."""
    expected: dict[str, Shape] = {}
    layout = card["observation"]
    inputs = layout_size(layout)
    if has_images(layout):
        from td3.algorithm.images.encoder import encoder_shapes  # imports PyTorch

        for key in ("channels", "features"):
            if key not in card:
                raise Malformed(f"its card has no {key}")
        stack, single = unstack_layout(layout)
        _, layers, inputs = encoder_shapes(stack, single, card["channels"], card["features"])
        for layer, pair in enumerate(layers, start=1):
            for kind, shape in zip(("weight", "bias"), pair, strict=True):
                expected[f"encoder.layer_{layer}.{kind}"] = (1, *shape)
    widths = (inputs, *card["hidden_sizes"], len(card["action"]["low"]))
    for layer, (rows, columns) in enumerate(pairwise(widths), start=1):
        expected[f"actor.layer_{layer}.weight"] = (1, rows, columns)
        expected[f"actor.layer_{layer}.bias"] = (1, 1, columns)
    return expected

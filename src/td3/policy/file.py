"""The policy file: tensors, and in the header a card that describes how to use them.

Needs NumPy only, so that a trained policy loads fast.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from td3.environments.bounds import ActionBounds
from td3.errors import UserError, first_line
from td3.files import digest, open_to_read, replace_file
from td3.policy.card import Shape, check_card
from td3.untrusted import Malformed, anything, integer, items, mapping, parse_json, table, text

FORMAT, READABLE = 2, (1, 2)  # format 1 had no checksum of its card
LONGEST_HEADER = 2**22  # bytes; names of tensors and the card
HEADER = table({}, {"__metadata__": mapping(text())})
TENSOR = table({"dtype": anything, "shape": items(integer()), "data_offsets": items(integer(), 2)})
Arrays = dict[str, NDArray[Any]]


def action_card(bounds: ActionBounds) -> dict[str, Any]:
    return {
        "low": bounds.low.tolist(),
        "high": bounds.high.tolist(),
        "shape": list(bounds.shape),
        "dtype": bounds.dtype,
    }


def read_bounds(card: Mapping[str, Any]) -> ActionBounds:
    """Undo `action_card` for the card of a policy."""
    action = card["action"]
    low, high = (np.array(action[name], dtype=np.float64) for name in ("low", "high"))
    return ActionBounds(low, high, tuple(action["shape"]), action["dtype"])


def save_policy(tensors: Mapping[str, ArrayLike], card: Mapping[str, Any], path: Path) -> None:
    """Write one policy and its card to a file. Arrays and tensors on the CPU are alike."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, policy_bytes(tensors, card))


def policy_bytes(tensors: Mapping[str, ArrayLike], card: Mapping[str, Any]) -> bytes:
    """The content of a policy file."""
    arrays = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    card = {**card, "format": FORMAT, "sha256": checksum(arrays)}
    text = json.dumps(card | {"card_sha256": card_checksum(card)})
    return save(arrays, metadata={"card": text})


def read_policy_file(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Card and tensors of a policy file. Raises UserError if it is damaged or not a policy."""
    try:
        with open(path, "rb", opener=open_to_read) as file:
            card, shapes = read_head(file, path)
            file.seek(0)
            arrays = load(file.read())
    except OSError as error:
        raise UserError(f"Cannot read the policy {path}: {error.strerror}.") from error
    except (ValueError, SafetensorError) as error:
        raise UserError(f"Cannot read the policy {path}: {first_line(error)}.") from error
    except KeyError as error:
        raise UserError(
            f"The policy {path} does not fit its card: NumPy has no numbers of type {error}."
        ) from error
    if card.get("sha256") != checksum(arrays) or shapes != {k: a.shape for k, a in arrays.items()}:
        raise UserError(f"The policy {path} is damaged: it fails its checksum.")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UserError(f"The policy {path} cannot be used: {name} has NaN or infinity.")
    return card, arrays


def read_head(file: BinaryIO, path: Path) -> tuple[dict[str, Any], dict[str, Shape]]:
    """The card of an opened policy file and the shapes of its tensors, before they are read.

    Raises UserError or Malformed.
    """
    total = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if length > min(total - 8, LONGEST_HEADER):
        raise Malformed("it is not complete, or not a policy file")
    header = parse_json(file.read(length))
    HEADER(header, "its header")
    found = parse_json(header.pop("__metadata__", {}).get("card", "{}").encode())
    known = isinstance(found, dict) and type(found.get("format")) is int
    if not known or found["format"] not in READABLE:
        formats = " or ".join(map(str, READABLE))
        raise UserError(f"{path} is not a policy of format {formats}.")
    unchecked = found["format"] == 1 and "card_sha256" not in found
    if not unchecked and found.get("card_sha256") != card_checksum(found):
        raise UserError(f"The policy {path} is damaged: it fails its checksum.")
    mapping(TENSOR)(header, "its header")
    data = max((own["data_offsets"][1] for own in header.values()), default=0)
    if 8 + length + data != total:
        raise Malformed(f"it has {total:,} bytes, but its header describes {8 + length + data:,}")
    shapes = {name: tuple(own["shape"]) for name, own in header.items()}
    try:
        check_card(found, shapes)
    except Malformed as error:
        raise UserError(f"The policy {path} does not fit its card: {error}.") from error
    return found, shapes


def checksum(tensors: Mapping[str, ArrayLike]) -> str:
    """Checksum of all numbers, in the order of their names."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(np.asarray(tensors[name]).tobytes())
    return found.hexdigest()


def card_checksum(card: Mapping[str, Any]) -> str:
    """Checksum of everything in a card except the checksum itself."""
    content = {key: value for key, value in card.items() if key != "card_sha256"}
    return digest(json.dumps(content).encode())

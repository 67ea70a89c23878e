"""The policy file: tensors, and in the header a card that describes how to use them.

Needs NumPy only, so that a trained policy loads fast.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from td3.environments.bounds import ActionBounds
from td3.errors import UserError, first_line
from td3.files import digest, replace_file

FORMAT, READABLE = 2, (1, 2)  # format 1 had no checksum of its card
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
    low, high = np.array(action["low"]), np.array(action["high"])
    return ActionBounds(low, high, tuple(action["shape"]), action["dtype"])


def save_policy(tensors: Mapping[str, ArrayLike], card: Mapping[str, Any], path: Path) -> None:
    """Write one policy and its card to a file. Arrays and tensors on the CPU are alike."""
    arrays = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    card = {**card, "format": FORMAT, "sha256": checksum(arrays)}
    text = json.dumps(card | {"card_sha256": card_checksum(card)})
    replace_file(path, save(arrays, metadata={"card": text}))


def read_policy_file(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Card and tensors of a policy file. Raises UserError if it is damaged or not a policy."""
    try:
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        arrays = load(data)  # checks the header too
        header = json.loads(data[8 : 8 + length])
        card = json.loads(header.get("__metadata__", {}).get("card", "{}"))
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(f"Cannot read the policy {path}: {first_line(error)}.") from error
    except KeyError as error:
        raise UserError(
            f"The policy {path} does not fit its card: NumPy has no numbers of type {error}."
        ) from error
    if not isinstance(card, dict) or card.get("format") not in READABLE:
        known = " or ".join(map(str, READABLE))
        raise UserError(f"{path} is not a policy of format {known}.")
    unchecked = card["format"] == 1 and "card_sha256" not in card
    intact = unchecked or card.get("card_sha256") == card_checksum(card)
    if not intact or card.get("sha256") != checksum(arrays):
        raise UserError(f"The policy {path} is damaged: it fails its checksum.")
    return card, arrays


def checksum(tensors: Mapping[str, ArrayLike]) -> str:
    """Checksum of all numbers, in the order of their names."""
    return digest(b"".join(np.asarray(tensors[name]).tobytes() for name in sorted(tensors)))


def card_checksum(card: Mapping[str, Any]) -> str:
    """Checksum of everything in a card except the checksum itself."""
    content = {key: value for key, value in card.items() if key != "card_sha256"}
    return digest(json.dumps(content).encode())

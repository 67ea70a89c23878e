"""Policy files that somebody made to do harm. Their checksums are valid unless noted.

Each case changes a good card and its tensors, or writes other bytes. None of them may be loaded.
"""

import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from td3.policy.file import card_checksum, checksum

Card = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Write = Callable[[Path, Card, Arrays], None]


def sealed(card: Mapping[str, Any], arrays: Arrays) -> Card:
    """The card with checksums that fit."""
    card = {**card, "sha256": checksum(arrays)}
    return card | {"card_sha256": card_checksum(card)}


def write(path: Path, card: Mapping[str, Any], arrays: Arrays) -> None:
    path.write_bytes(save(arrays, metadata={"card": json.dumps(sealed(card, arrays))}))


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def with_card(**changes: Any) -> Write:
    """A good file with other values in its card; `name__key` is a key in a table."""

    def make(path: Path, card: Card, arrays: Arrays) -> None:
        for name, value in changes.items():
            table, _, key = name.partition("__")
            card = {**card, table: {**card[table], key: value} if key else value}
        write(path, card, arrays)

    return make


def without(name: str) -> Write:
    def make(path: Path, card: Card, arrays: Arrays) -> None:
        write(path, {key: value for key, value in card.items() if key != name}, arrays)

    return make


def with_array(name: str, change: Callable[[NDArray[Any]], NDArray[Any] | None]) -> Write:
    """A good file with another tensor in the place of one."""

    def make(path: Path, card: Card, arrays: Arrays) -> None:
        changed = change(arrays.get(name, np.zeros((1, 1), np.float32)))
        arrays = {key: value for key, value in arrays.items() if key != name}
        write(path, card, arrays | ({} if changed is None else {name: changed}))

    return make


def filled(value: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    def change(array: NDArray[Any]) -> NDArray[Any]:
        array = array.copy()
        array.flat[0] = value
        return array

    return change


def with_header(change: Callable[[dict[str, Any]], Any]) -> Write:
    """A good file with another header; sizes and offsets may be wrong."""

    def make(path: Path, card: Card, arrays: Arrays) -> None:
        data = save(arrays, metadata={"card": json.dumps(sealed(card, arrays))})
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        text = change(header)
        text = text if isinstance(text, bytes) else json.dumps(text or header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])

    return make


def with_card_text(text: str) -> Write:
    return with_header(lambda header: {**header, "__metadata__": {"card": text}})


def with_offsets(name: str, *offsets: Any) -> Write:
    def change(header: dict[str, Any]) -> None:
        header[name]["data_offsets"] = list(offsets)

    return with_header(change)


def with_entry(name: str, key: str, value: Any) -> Write:
    def change(header: dict[str, Any]) -> None:
        header[name][key] = value

    return with_header(change)


def with_bytes(data: bytes) -> Write:
    return lambda path, card, arrays: path.write_bytes(data) and None  # type: ignore[func-returns-value]


def cut_to(length: int) -> Write:
    def make(path: Path, card: Card, arrays: Arrays) -> None:
        write(path, card, arrays)
        os.truncate(path, length)

    return make


def as_fifo(path: Path, card: Card, arrays: Arrays) -> None:
    os.mkfifo(path)


def as_folder(path: Path, card: Card, arrays: Arrays) -> None:
    path.mkdir()


def as_link(target: str) -> Write:
    return lambda path, card, arrays: path.symlink_to(target)


def sparse(path: Path, card: Card, arrays: Arrays) -> None:
    """Three gigabytes, of which the header explains none."""
    write(path, card, arrays)
    os.truncate(path, 3 * 2**30)


def sparse_header(path: Path, card: Card, arrays: Arrays) -> None:
    """A header of three gigabytes of zeros."""
    path.write_bytes(struct.pack("<Q", 3 * 2**30 - 8))
    os.truncate(path, 3 * 2**30)


def sparse_network(path: Path, card: Card, arrays: Arrays) -> None:
    """Three gigabytes that the header explains, but not the card."""
    huge = {"big": {"dtype": "F32", "shape": [3 * 2**28], "data_offsets": [0, 3 * 2**30]}}
    card = sealed(card, arrays)
    text = json.dumps({"__metadata__": {"card": json.dumps(card)}, **huge}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + 3 * 2**30)


W2, B3 = "actor.layer_2.weight", "actor.layer_3.bias"
IMAGE = {"stack": 3, "of": {"image": [16, 16]}}
ENCODED = {"channels": [4, 4], "features": 8}
CASES: dict[str, Write] = {
    "hidden sizes of a gigabyte": with_card(hidden_sizes=[30_000, 30_000]),
    "hidden sizes of a gigabyte, variant": with_card(
        hidden_sizes=[30_000, 30_000], variant={"name": "layer_norm"}
    ),
    "critics of a gigabyte": with_card(variant={"name": "ensemble", "critics": 10**6}),
    "unknown setting of a variant": with_card(variant={"name": "huber", "x": 1}),
    "setting of a variant is a list": with_card(variant={"name": "huber", "delta": nested(9)}),
    "tensor of a variant missing": lambda path, card, arrays: with_array(W2, lambda a: None)(
        path, {**card, "variant": {"name": "layer_norm"}}, arrays
    ),
    "variant is a text": with_card(variant="huber"),
    "variant is a number": with_card(variant=7),
    "variant without name": with_card(variant={}),
    "variant of another module": with_card(variant={"name": "antigravity:TD3"}),
    "variant with escape sequence": with_card(variant={"name": "\x1b[2J:X"}),
    "hidden sizes negative": with_card(hidden_sizes=[-8, 8]),
    "hidden sizes zero": with_card(hidden_sizes=[0, 8]),
    "hidden sizes float": with_card(hidden_sizes=[8.0, 8]),
    "hidden sizes number": with_card(hidden_sizes=8),
    "hidden sizes text": with_card(hidden_sizes="88"),
    "hidden sizes boolean": with_card(hidden_sizes=[True, 8]),
    "hidden sizes null": with_card(hidden_sizes=None),
    "hidden sizes many": with_card(hidden_sizes=[1] * 100_000),
    "hidden sizes huge": with_card(hidden_sizes=[10**39]),
    "no hidden sizes": without("hidden_sizes"),
    "no observation": without("observation"),
    "no action": without("action"),
    "no environment": without("environment"),
    "observation null": with_card(observation=None),
    "observation list": with_card(observation=[3]),
    "observation of no kind": with_card(observation={}),
    "observation of two kinds": with_card(observation={"box": [3], "image": [16, 16]}),
    "observation stacked twice": with_card(observation={"stack": 2, "of": IMAGE}),
    "stack beside a box": with_card(observation={"box": [3], "stack": 2, "of": {"box": [1]}}),
    "stack of a billion": with_card(observation={"stack": 10**9, "of": {"box": [3]}}),
    "box negative": with_card(observation={"box": [-3]}),
    "box negative twice": with_card(observation={"box": [-1, -3]}),
    "box overflow": with_card(observation={"box": [2**31, 2**31, 2**31]}),
    "box huge": with_card(observation={"box": [10**39]}),
    "box empty": with_card(observation={"box": [0]}),
    "box text": with_card(observation={"box": "3"}),
    "discrete negative": with_card(observation={"discrete": -3, "start": 0}),
    "discrete without start": with_card(observation={"discrete": 3}),
    "discrete of billions": with_card(observation={"discrete": 2**40, "start": 0}),
    "choices ragged": with_card(observation={"discretes": [[1, 2], [3]], "starts": [0, 0]}),
    "choices without starts": with_card(observation={"discretes": [1, 2], "starts": [0]}),
    "choices text": with_card(observation={"discretes": ["a"], "starts": [0]}),
    "choices nested": with_card(observation={"discretes": nested(50), "starts": nested(50)}),
    "tuple of numbers": with_card(observation={"tuple": [3]}),
    "tuple is a table": with_card(observation={"tuple": {"a": {"box": [3]}}}),
    "dictionary is a list": with_card(observation={"dict": [{"box": [3]}]}),
    "image without encoder": with_card(observation=IMAGE),
    "image without tensors": with_card(observation=IMAGE, **ENCODED),
    "image of petabytes": with_card(observation={"image": [2**25, 2**25, 3]}, **ENCODED),
    "image of one side": with_card(observation={"image": [16]}, **ENCODED),
    "image bounds equal": with_card(observation={"image": [16, 16], "low": 1, "high": 1}),
    "image bounds text": with_card(observation={"image": [16, 16], "low": "0"}),
    "channels of a terabyte": with_card(observation=IMAGE, channels=[2**16] * 60, features=8),
    "channels negative": with_card(observation=IMAGE, channels=[-4], features=8),
    "features huge": with_card(observation=IMAGE, channels=[4], features=2**31),
    "action null": with_card(action=None),
    "action bounds NaN": with_card(action__low=[float("nan")]),
    "action bounds infinite": with_card(action__high=[float("inf")]),
    "action bounds swapped": with_card(action__low=[3.0], action__high=[2.0]),
    "action bounds text": with_card(action__low=["a"]),
    "action bounds of 39 digits": with_card(action__high=[10**39], action__shape=[2]),
    "action bounds nested": with_card(action__low=[[-2.0]], action__high=[[2.0]]),
    "action bounds boolean": with_card(action__low=[True]),
    "action bounds too many": with_card(action__low=[-2.0] * 9),
    "action bounds none": with_card(action__low=[], action__high=[], action__shape=[0]),
    "action shape other": with_card(action__shape=[7]),
    "action shape negative": with_card(action__shape=[-1]),
    "action shape huge": with_card(action__shape=[2**31, 2**31]),
    "action shape number": with_card(action__shape=1),
    "action type object": with_card(action__dtype="O"),
    "action type record": with_card(action__dtype="V1000000000"),
    "action type unknown": with_card(action__dtype="float31"),
    "action type number": with_card(action__dtype=3),
    "environment text": with_card(environment="Pendulum-v1"),
    "environment without id": with_card(environment={}),
    "environment id empty": with_card(environment__id=""),
    "environment id number": with_card(environment__id=3),
    "environment argument nested": with_card(environment__kwargs={"g": {"a": 1}}),
    "environment arguments list": with_card(environment__kwargs=[1]),
    "environment unknown key": with_card(environment__gravity=1),
    "frame stack text": with_card(environment__frame_stack="3"),
    "frame stack huge": with_card(environment__frame_stack=10**9),
    "action repeat negative": with_card(environment__action_repeat=-1),
    "resize huge": with_card(environment__resize=10**9),
    "time limit float": with_card(environment__max_episode_steps=1.5),
    "step text": with_card(step="many"),
    "step negative": with_card(step=-1),
    "step huge": with_card(step=10**39),
    "mean return NaN": with_card(mean_return=float("nan")),
    "mean return text": with_card(mean_return="high"),
    "longest episode zero": with_card(max_steps=0),
    "longest episode list": with_card(max_steps=[1]),
    "settings list": with_card(settings=[1]),
    "settings with escape sequence": with_card(settings={"\x1b[2J": 1}),
    "settings text": with_card(settings={"agent.tau": "\x1b[2J"}),
    "published score text": with_card(tested={"mean_return": "1"}),
    "published score NaN": with_card(tested={"std_return": float("nan")}),
    "normalization text": with_card(normalize_observations="yes"),
    "format 0": with_card(format=0),
    "format text": with_card(format="2"),
    "format true": with_card(format=True),
    "format list": with_card(format=[2]),
    "weights NaN": with_array(W2, filled(float("nan"))),
    "weights infinite": with_array(B3, filled(float("-inf"))),
    "weights integer": with_array(W2, lambda a: a.astype(np.int32)),
    "weights boolean": with_array(B3, lambda a: a.astype(bool)),
    "weights of two agents": with_array(W2, lambda a: np.repeat(a, 2, axis=0)),
    "weights flat": with_array(W2, lambda a: a.ravel()),
    "weights transposed": with_array("actor.layer_1.weight", lambda a: a.transpose(0, 2, 1).copy()),
    "weights missing": with_array(W2, lambda a: None),
    "weights of another layer": with_array("actor.layer_9.weight", lambda a: a),
    "tensor without purpose": with_array("extra", lambda a: a),
    "tensor with a long name": with_array("x" * 100_000, lambda a: a),
    "tensor with escape sequence": with_array("\x1b[2J", lambda a: a),
    "statistics incomplete": with_array("normalizer.mean", lambda a: np.zeros((1, 3))),
    "statistics unknown": with_array("normalizer.x", lambda a: np.zeros((1, 3))),
    "offsets overlap": with_offsets(W2, 0, 256),
    "offsets negative": with_offsets(W2, -4, 252),
    "offsets swapped": with_offsets(W2, 300, 44),
    "offsets beyond the end": with_offsets(W2, 2**40, 2**40 + 256),
    "offsets overflow": with_offsets(W2, 2**64 - 256, 2**64),
    "offsets text": with_offsets(W2, "0", "256"),
    "offsets of one": with_offsets(W2, 256),
    "shape negative": with_entry(W2, "shape", [1, -8, -8]),
    "shape overflow": with_entry(W2, "shape", [2**62, 4, 8]),
    "shape huge": with_entry(W2, "shape", [1, 2**31, 8]),
    "shape text": with_entry(W2, "shape", "188"),
    "shape nested": with_entry(W2, "shape", nested(50)),
    "type unknown": with_entry(W2, "dtype", "F31"),
    "type number": with_entry(W2, "dtype", 3),
    "type bfloat16": with_entry(W2, "dtype", "BF16"),
    "entry null": with_header(lambda h: {**h, W2: None}),
    "entry list": with_header(lambda h: {**h, W2: [1]}),
    "header list": with_header(lambda h: [h]),
    "header null": with_header(lambda h: b"null"),
    "header number of 5,000 digits": with_header(lambda h: b'{"a":' + b"9" * 5000 + b"}"),
    "header nested": with_header(lambda h: b"[" * 100_000),
    "header of many lists": with_header(lambda h: b"[" + b"[]," * 1_300_000 + b"[]]"),
    "header not UTF-8": with_header(lambda h: b'{"\xff": 1}'),
    "header with a lone surrogate": with_header(lambda h: b'{"__metadata__":{"card":"\\ud800"}}'),
    "metadata list": with_header(lambda h: {**h, "__metadata__": [1]}),
    "metadata null": with_header(lambda h: {**h, "__metadata__": None}),
    "card is a table": with_header(lambda h: {**h, "__metadata__": {"card": {}}}),
    "card missing": with_header(lambda h: {**h, "__metadata__": {}}),
    "card null": with_card_text("null"),
    "card list": with_card_text("[2]"),
    "card text": with_card_text('"card"'),
    "card empty": with_card_text(""),
    "card nested": with_card_text('{"format": 2, "a": ' + "[" * 10_000 + "]" * 10_000 + "}"),
    "card number of 5,000 digits": with_card_text('{"format": ' + "9" * 5000 + "}"),
    "card number of 400 digits": with_card_text('{"format": ' + "9" * 400 + "}"),
    "card without checksum": with_card_text('{"format": 2}'),
    "empty file": with_bytes(b""),
    "three bytes": with_bytes(b"abc"),
    "eight bytes": with_bytes(b"\x00" * 8),
    "length of the header huge": with_bytes(b"\xff" * 16),
    "length of the header negative": with_bytes(struct.pack("<q", -1) + b"{}"),
    "only a header": cut_to(400),
    "last byte missing": cut_to(2000),
    "sparse": sparse,
    "sparse header": sparse_header,
    "sparse network": sparse_network,
    "FIFO": as_fifo,
    "folder": as_folder,
    "link to /dev/zero": as_link("/dev/zero"),
    "link to /dev/tty": as_link("/dev/tty"),
    "link to itself": as_link("policy.safetensors"),
    "link to nothing": as_link("nothing"),
}

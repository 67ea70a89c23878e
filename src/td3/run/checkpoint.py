"""Checkpoints: complete or absent, protected by checksums, and incremental.

    checkpoints/000010000/state.safetensors    networks, targets, moments, environments
    checkpoints/000010000/manifest.json        counters, random streams, checksums
    replay/000010000.rows                      transitions added since the checkpoint before

Each transition is written once. A checkpoint lists the replay files ("segments") that contain
transitions of its replay buffer. A segment that no kept checkpoint lists is removed.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from td3.algorithm.replay_base import Replay
from td3.errors import UserError
from td3.files import (
    TEMPORARY,
    check_folder,
    digest,
    flush_folder,
    make_folder,
    new_folder,
    opened_folder,
    refuse_link,
    remove,
    remove_folder,
    rename,
    write_durably,
)

FORMAT = 3
KEPT = 2
CHECKPOINT_NAME = re.compile("[0-9]{9}|[1-9][0-9]{9,}")  # as f"{step:09d}" writes it
SEGMENT_NAME = re.compile(rf"({CHECKPOINT_NAME.pattern})\.rows")
STATE, MANIFEST = "state.safetensors", "manifest.json"
FILES = (MANIFEST, STATE)  # removed in this order: a folder without a manifest is not a checkpoint


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and is complete."""

    step: int
    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    """Everything that is not a tensor: counters, streams, length of metrics.jsonl."""
    segments: list[dict[str, Any]]
    rejected: list[str]
    """Why newer checkpoints were not used, one sentence each."""


class Invalid(Exception):
    """A checkpoint that must not be used; the message tells what is wrong with it."""


def save_checkpoint(
    run: Path,
    step: int,
    tensors: Mapping[str, Tensor],
    facts: Mapping[str, Any],
    replay: Replay,
    segments: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Write a checkpoint; returns its replay segments, which the next call needs."""
    folder = run / "checkpoints" / f"{step:09d}"
    make_folder(folder.parent)
    fresh = new_segment(run, step, replay, segments)
    segments = [*(s for s in segments if is_needed(s, replay)), *fresh]
    with new_folder(folder, FILES) as temporary:
        blob = save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
        size, checksum = write_durably(temporary / STATE, [blob])
        body = {
            "format": FORMAT,
            "step": step,
            "state": {"bytes": size, "sha256": checksum},
            "segments": segments,
            "facts": dict(facts),
        }
        write_durably(temporary / MANIFEST, [seal(body)])
    prune(run)
    return segments


def seal(body: Mapping[str, Any]) -> bytes:
    """JSON, followed by a line with its checksum."""
    text = json.dumps(body, indent=1).encode()
    return text + b"\n" + digest(text).encode() + b"\n"


def unseal(data: bytes) -> dict[str, Any]:
    """The content of a manifest. Raises Invalid if the checksum or the format is wrong."""
    text, _, checksum = data.rstrip(b"\n").rpartition(b"\n")
    if data != text + b"\n" + checksum + b"\n" or digest(text).encode() != checksum:
        raise Invalid(f"{MANIFEST} fails its checksum")
    body = json.loads(text)
    if body.get("format") != FORMAT:
        raise Invalid(f"it has format {body.get('format')}, and this td3 reads format {FORMAT}")
    return dict(body)


def new_segment(
    run: Path, step: int, replay: Replay, segments: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Write the transitions added since the last segment; returns [] if there are none."""
    if replay.rows is None:
        return []
    spans = {}
    for table, (ring, written) in replay.tables.items():
        saved = segments[-1]["tables"][table]["stop"] if segments else [0] * replay.agents
        spans[table] = [
            (max(int(start), int(stop) - ring.shape[1]), int(stop))
            for start, stop in zip(saved, written, strict=True)
        ]
    if all(start == stop for own in spans.values() for start, stop in own):
        return []
    folder = run / "replay"
    make_folder(folder)
    name = f"{step:09d}.rows"
    temporary = folder / (TEMPORARY + name)
    size, checksum = write_durably(
        temporary,
        (
            chunk
            for table, own in spans.items()
            for agent, span in enumerate(own)
            for chunk in entries(replay.tables[table][0][agent], *span)
        ),
    )
    rename(temporary, folder / name)
    flush_folder(folder)
    return [
        {
            "file": name,
            "bytes": size,
            "sha256": checksum,
            "tables": {
                table: {"start": [start for start, _ in own], "stop": [stop for _, stop in own]}
                for table, own in spans.items()
            },
            "dims": [replay.state_dim, replay.action_dim],
        }
    ]


def entries(ring: Tensor, start: int, stop: int) -> list[memoryview]:
    """The bytes of entries start…stop of one agent's ring buffer, oldest first."""
    places = len(ring)
    first, last = start % places, (stop - 1) % places + 1
    if start == stop or ring.shape[1] == 0:
        return []
    pieces = [(first, last)] if first < last else [(first, places), (0, last)]
    return [ring[a:b].cpu().numpy().data.cast("B") for a, b in pieces]


def is_needed(segment: Mapping[str, Any], replay: Replay) -> bool:
    """Whether a segment contains transitions that were not overwritten yet."""
    return any(
        (np.array(segment["tables"][table]["stop"]) > written - ring.shape[1]).any()
        for table, (ring, written) in replay.tables.items()
    )


def prune(run: Path) -> None:
    """Remove all but the newest checkpoints and the segments that they use."""
    folders = by_step(run)
    for folder in folders[KEPT:]:
        remove_folder(folder, FILES)
    used = set()
    for folder in folders[:KEPT]:
        try:
            used |= {segment["file"] for segment in read_manifest(folder)["segments"]}
        except Invalid:
            remove_folder(folder, FILES)
    with suppress(FileNotFoundError), opened_folder(run / "replay") as replay:
        for name in os.listdir(replay):
            if SEGMENT_NAME.fullmatch(name.removeprefix(TEMPORARY)) and name not in used:
                remove(name, replay)


def by_step(run: Path) -> list[Path]:
    """The folders of the checkpoints, newest first."""
    folders = [
        folder
        for folder in own_folders(run)
        if not folder.name.startswith(TEMPORARY) and any((folder / name).exists() for name in FILES)
    ]
    return sorted(folders, key=lambda folder: int(folder.name), reverse=True)


def own_folders(run: Path) -> list[Path]:
    """The folders that `save_checkpoint` wrote, complete or not."""
    return [
        folder
        for folder in (run / "checkpoints").glob("*")
        if CHECKPOINT_NAME.fullmatch(folder.name.removeprefix(TEMPORARY))
        and folder.is_dir()
        and not folder.is_symlink()
    ]


def check_entries(run: Path) -> None:
    """Refuse links at the names that this module writes to, before anything is written."""
    for folder, names in (("checkpoints", CHECKPOINT_NAME), ("replay", SEGMENT_NAME)):
        check_folder(run / folder)
        for path in (run / folder).glob("*"):
            if names.fullmatch(path.name.removeprefix(TEMPORARY)):
                refuse_link(path)
    for own in own_folders(run):
        for name in FILES:
            refuse_link(own / name)
            refuse_link(own / (TEMPORARY + name))


def forget_after(run: Path, step: int) -> None:
    """Remove damaged and incomplete checkpoints, so that `prune` does not keep them."""
    for folder in own_folders(run):
        if folder.name.startswith(TEMPORARY) or int(folder.name) > step:
            remove_folder(folder, FILES)


def read_manifest(folder: Path) -> dict[str, Any]:
    try:
        return unseal(regular_bytes(folder / MANIFEST))
    except OSError as error:
        raise Invalid(f"{MANIFEST} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise Invalid(f"{MANIFEST} is not JSON") from error


def regular_bytes(path: Path) -> bytes:
    """The content of a regular file. Reading a FIFO would wait for a writer."""
    if path.exists() and not path.is_file():
        raise Invalid(f"{path.name} is not a regular file")
    return path.read_bytes()


def checked_bytes(path: Path, expected: Mapping[str, Any]) -> bytes:
    """The content of a file with the expected size and checksum. Raises Invalid otherwise."""
    try:
        if path.stat().st_size != expected["bytes"]:
            raise Invalid(f"{path.name} has {path.stat().st_size} bytes, not {expected['bytes']}")
        data = regular_bytes(path)
    except OSError as error:
        raise Invalid(f"{path.name} cannot be read ({error.strerror})") from error
    if digest(data) != expected["sha256"]:
        raise Invalid(f"{path.name} fails its checksum")
    return data


def newest_checkpoint(
    run: Path,
    replay: Replay | None = None,
    accept: Callable[[dict[str, Any]], object] = lambda facts: None,
) -> Checkpoint | None:
    """Read the newest valid checkpoint and fill `replay`, if any, from it; None if there is none.

    `accept` gets its facts first, and may raise if `replay` has another shape.
    """
    rejected: list[str] = []
    for folder in by_step(run):
        try:
            body = read_manifest(folder)
            accept(body["facts"])
            tensors = load(checked_bytes(folder / STATE, body["state"]))
            if replay is not None:
                fill(replay, run, body["segments"])
            return Checkpoint(body["step"], tensors, body["facts"], body["segments"], rejected)
        except Invalid as error:
            rejected.append(f"checkpoint {folder.name} is not used: {error}")
        except (KeyError, TypeError, ValueError, SafetensorError) as error:
            rejected.append(f"checkpoint {folder.name} is not used: malformed ({error})")
    if rejected:
        raise UserError(f"No checkpoint in {run} can be used: {'; '.join(rejected)}.")
    return None


def fill(replay: Replay, run: Path, segments: list[dict[str, Any]]) -> None:
    """Put the transitions of all segments back into the replay buffer."""
    replay.clear()
    for segment in segments:
        if not SEGMENT_NAME.fullmatch(segment["file"]):
            raise Invalid(f"{segment['file']!r} is not the name of a replay segment")
        data = checked_bytes(run / "replay" / segment["file"], segment)
        if replay.rows is None:
            replay.allocate(*segment["dims"])
        assert replay.rows is not None
        rest = memoryview(data)
        for table, (ring, written) in replay.tables.items():
            own = segment["tables"][table]
            for agent, (start, stop) in enumerate(zip(own["start"], own["stop"], strict=True)):
                width = ring.shape[2]
                size = (stop - start) * width * ring.dtype.itemsize
                if size:
                    part = torch.frombuffer(bytearray(rest[:size]), dtype=ring.dtype)
                    places = torch.arange(start, stop) % ring.shape[1]
                    ring[agent, places.to(ring.device)] = part.view(-1, width).to(ring.device)
                    rest = rest[size:]
                written[agent] = stop
        if rest:
            raise Invalid(f"{segment['file']} is longer than its tables")

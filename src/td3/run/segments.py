"""Replay segments: files of the transitions that were added between two checkpoints."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.replay_base import Replay
from td3.errors import first_line
from td3.files import (
    TEMPORARY,
    digest,
    flush_path,
    make_folder,
    read_regular,
    rename,
    write_durably,
)
from td3.run.manifest import Invalid

Part = tuple[str, int, int, int, int]
"""Table, agent, first and last entry, size in bytes."""


def new_segment(
    run: Path, step: int, replay: Replay, segments: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Write the transitions added since the last segment; returns [] if there are none."""
    if replay.rows is None:
        return []
    spans = {}
    for table, (ring, written) in replay.tables.items():
        saved = np.zeros(replay.agents, dtype=np.int64)
        if segments:
            same = lives_of(segments[-1], replay.agents) == replay.lives
            saved[same] = np.array(segments[-1]["tables"][table]["stop"])[same]
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
    flush_path(folder)
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
            **({"lives": replay.lives.tolist()} if replay.lives.any() else {}),
        }
    ]


def lives_of(segment: Mapping[str, Any], agents: int) -> NDArray[np.int64]:
    """How often the buffer of each agent had been emptied when the segment was written."""
    return np.array(segment.get("lives", [0] * agents), dtype=np.int64)


def entries(ring: Tensor, start: int, stop: int) -> list[memoryview]:
    """The bytes of entries start…stop of one agent's ring buffer, oldest first."""
    places = len(ring)
    first, last = start % places, (stop - 1) % places + 1
    if start == stop or ring.shape[1] == 0:
        return []
    pieces = [(first, last)] if first < last else [(first, places), (0, last)]
    return [ring[a:b].cpu().numpy().data.cast("B") for a, b in pieces]


def forget_damaged(
    replay: Replay, segments: list[dict[str, Any]], damaged: list[str]
) -> list[dict[str, Any]]:
    """Exclude the transitions of damaged files, after the replay buffer was restored.

    Returns the segments that the next checkpoint may use: none, because the others do not hold all
    transitions of this buffer in their order.
    """
    if not damaged:
        return segments
    replay.forget([spans_of(s, replay) for s in segments if s["file"] in damaged])
    return []


def spans_of(segment: Mapping[str, Any], replay: Replay) -> dict[str, dict[str, list[int]]]:
    """First and last entry of each agent by table; 0 and 0 if its buffer was emptied since."""
    own = lives_of(segment, replay.agents) == replay.lives
    return {
        table: {name: (own * np.array(numbers)).tolist() for name, numbers in span.items()}
        for table, span in segment["tables"].items()
    }


def is_needed(segment: Mapping[str, Any], replay: Replay) -> bool:
    """Whether a segment contains transitions that were not overwritten yet."""
    own = lives_of(segment, replay.agents) == replay.lives
    return any(
        (own & (np.array(segment["tables"][table]["stop"]) > written - ring.shape[1])).any()
        for table, (ring, written) in replay.tables.items()
    )


def checked_bytes(path: Path, expected: Mapping[str, Any]) -> bytes:
    """The content of a file with the expected size and checksum. Raises Invalid otherwise."""
    try:
        size = path.stat().st_size
        data = read_regular(path, expected["bytes"]) if size == expected["bytes"] else b""
    except OSError as error:
        raise Invalid(f"{path.name} cannot be read ({error.strerror})") from error
    if size != expected["bytes"]:
        raise Invalid(f"{path.name} has {size} bytes, not {expected['bytes']}")
    if digest(data) != expected["sha256"]:
        raise Invalid(f"{path.name} fails its checksum")
    return data


def fill(
    replay: Replay, run: Path, segments: list[dict[str, Any]], lossy: bool = False
) -> list[str]:
    """Put the transitions of all segments back into the replay buffer.

    Raises Invalid if a file is damaged; with `lossy`, returns the names of damaged files instead.
    """
    replay.clear()
    damaged = []
    for segment in segments:
        if replay.rows is None:
            try:
                replay.allocate(*segment["dims"])
            except (ValueError, RuntimeError) as error:  # a size that this task does not have
                raise Invalid(f"{segment['file']} does not fit: {first_line(error)}") from error
        parts = list(parts_of(segment, replay))  # before its bytes are read
        try:
            pieces = read_pieces(run / "replay", segment, parts, replay)
        except Invalid:
            if not lossy:
                raise
            damaged.append(segment["file"])
            pieces = [None] * len(parts)
        for (table, agent, start, stop, _), piece in zip(parts, pieces, strict=True):
            ring, written = replay.tables[table]
            if piece is not None:
                places = torch.arange(start, stop) % ring.shape[1]
                ring[agent, places.to(ring.device)] = piece.to(ring.device)
            written[agent] = stop
        replay.lives[:] = lives_of(segment, replay.agents)
    return damaged


def read_pieces(
    folder: Path, segment: Mapping[str, Any], parts: list[Part], replay: Replay
) -> list[Tensor | None]:
    """The entries of each part of a segment; None if it has none. Raises Invalid."""
    name = segment["file"]
    rest = memoryview(checked_bytes(folder / name, segment))
    pieces: list[Tensor | None] = []
    for table, _, start, stop, size in parts:
        piece = None
        if size:
            piece = torch.frombuffer(bytearray(rest[:size]), dtype=replay.tables[table][0].dtype)
            if piece.is_floating_point() and not torch.isfinite(piece).all():
                raise Invalid(f"{name} has NaN or infinity")
            piece, rest = piece.view(stop - start, -1), rest[size:]
        pieces.append(piece)
    return pieces


def parts_of(segment: Mapping[str, Any], replay: Replay) -> Iterator[Part]:
    """The parts of a segment, in their order.

    Raises Invalid if they do not fit the replay buffer, or do not add up to the segment's size.
    """
    name, total = segment["file"], 0
    if segment["tables"].keys() != replay.tables.keys():
        raise Invalid(f"{name} has other tables than this run's replay buffer")
    for table, (ring, written) in replay.tables.items():
        own = segment["tables"][table]
        if len(own["start"]) != len(written):
            raise Invalid(f"{name} is of {len(own['start'])} agents, not {len(written)}")
        for agent, (start, stop) in enumerate(zip(own["start"], own["stop"], strict=True)):
            if stop - start > ring.shape[1]:
                raise Invalid(f"{name} has more entries than fit into the replay buffer")
            size = (stop - start) * ring.shape[2] * ring.dtype.itemsize
            total += size
            yield table, agent, start, stop, size
    if total != segment["bytes"]:
        raise Invalid(f"{name} has {segment['bytes']} bytes, but its tables have {total}")

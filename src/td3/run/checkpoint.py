"""Checkpoints: complete or absent, protected by checksums, and incremental.

    checkpoints/000010000/state.safetensors    networks, targets, moments, environments
    checkpoints/000010000/manifest.json        counters, random streams, checksums
    replay/000010000.rows                      transitions added since the checkpoint before

Each transition is written once. A checkpoint lists the replay files ("segments") that contain
transitions of its replay buffer. A segment that no kept checkpoint lists is removed.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from td3.algorithm.replay_base import Replay
from td3.errors import UserError
from td3.files import (
    TEMPORARY,
    check_folder,
    make_folder,
    new_folder,
    opened_folder,
    refuse_link,
    remove,
    remove_folder,
    write_durably,
)
from td3.run.manifest import (
    CHECKPOINT_NAME,
    FORMAT,
    MANIFEST,
    SEGMENT_NAME,
    Invalid,
    read_manifest,
    seal,
)
from td3.run.segments import checked_bytes, fill, is_needed, new_segment

KEPT = 2
STATE = "state.safetensors"
FILES = (MANIFEST, STATE)  # removed in this order: a folder without a manifest is not a checkpoint

Accept = Callable[[dict[str, Any], dict[str, Tensor]], object]


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
            "facts": {**facts, "step": step},
        }
        write_durably(temporary / MANIFEST, [seal(body)])
    prune(run)
    return segments


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


def newest_checkpoint(
    run: Path,
    replay: Replay | None = None,
    accept: Accept = lambda content, tensors: None,
) -> Checkpoint | None:
    """Read the newest valid checkpoint and fill `replay`, if any, from it; None if there is none.

    `accept` gets its manifest and its tensors before `replay` is filled. It raises Invalid if the
    checkpoint must not be used, so that the one before is tried, and UserError if none can be.
    """
    rejected: list[str] = []
    for folder in by_step(run):
        try:
            body = read_manifest(folder)
            tensors = load(checked_bytes(folder / STATE, body["state"]))
            accept(body, tensors)
            if replay is not None:
                fill(replay, run, body["segments"])
            return Checkpoint(body["step"], tensors, body["facts"], body["segments"], rejected)
        except Invalid as error:
            rejected.append(f"checkpoint {folder.name} is not used: {error}")
        except SafetensorError as error:
            rejected.append(f"checkpoint {folder.name} is not used: {STATE} is malformed ({error})")
    if rejected:
        raise UserError(f"No checkpoint in {run} can be used: {'; '.join(rejected)}.")
    return None

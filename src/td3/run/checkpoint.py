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
from td3.errors import UserError, first_line
from td3.files import (
    TEMPORARY,
    check_file,
    check_folder,
    make_folder,
    new_folder,
    opened_folder,
    refuse_link,
    remove,
    remove_folder,
    write_durably,
)
from td3.run.aside import ASIDE, set_checkpoint_aside
from td3.run.copies import KEPT_RUNS
from td3.run.manifest import (
    CHECKPOINT_NAME,
    FILES,
    FORMAT,
    MANIFEST,
    SEGMENT_NAME,
    STATE,
    Invalid,
    by_step,
    own_folders,
    read_manifest,
    seal,
)
from td3.run.segments import checked_bytes, fill, is_needed, new_segment

KEPT = 2

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
    sha256: str
    """Checksum of the file with the tensors."""
    damaged: list[str]
    """Replay files that could not be read; their transitions are missing."""


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


def prune(run: Path, kept: int = KEPT) -> None:
    """Remove all but the newest checkpoints and the segments that they use."""
    folders = by_step(run)
    for folder in folders[kept:]:
        remove_folder(folder, FILES)
    used = set()
    for folder in folders[:kept]:
        try:
            used |= {segment["file"] for segment in read_manifest(folder)["segments"]}
        except Invalid as error:
            if isinstance(error.__cause__, OSError):
                return  # it may be readable later, so keep its segments until then
            set_checkpoint_aside(run, folder)
    with suppress(FileNotFoundError), opened_folder(run / "replay") as replay:
        for name in os.listdir(replay):
            if SEGMENT_NAME.fullmatch(name.removeprefix(TEMPORARY)) and name not in used:
                remove(name, replay)


def check_entries(run: Path) -> None:
    """Refuse links at the names that this module writes to, before anything is written."""
    for folder, names in (("checkpoints", CHECKPOINT_NAME), ("replay", SEGMENT_NAME)):
        check_folder(run / folder)
        for path in (run / folder).glob("*"):
            if names.fullmatch(path.name.removeprefix(TEMPORARY)):
                (check_file if names is SEGMENT_NAME else refuse_link)(path)
    check_folder(run / ASIDE)
    check_folder(run / KEPT_RUNS)
    for own in own_folders(run):
        for name in FILES:
            refuse_link(own / name)
            refuse_link(own / (TEMPORARY + name))


def forget_after(run: Path, step: int) -> None:
    """Remove incomplete checkpoints, and move newer ones aside: they are damaged."""
    for folder in own_folders(run):
        if folder.name.startswith(TEMPORARY):
            remove_folder(folder, FILES)
    for folder in by_step(run):
        if int(folder.name) > step:
            set_checkpoint_aside(run, folder)


def newest_checkpoint(
    run: Path,
    replay: Replay | None = None,
    accept: Accept = lambda content, tensors: None,
) -> Checkpoint | None:
    """Read the newest valid checkpoint and fill `replay`, if any, from it; None if there is none.

    If replay files are damaged, the older of the regular checkpoints may do without them. If not,
    the newest checkpoint is used without these files (`Checkpoint.damaged`).

    `accept` gets its manifest and its tensors before `replay` is filled. It raises Invalid if the
    checkpoint must not be used, so that the one before is tried, and UserError if none can be.
    """
    folders, rejected = by_step(run), dict[Path, str]()
    attempts = [(f, False) for f in folders[:KEPT]] + [(f, True) for f in folders]
    for folder, lossy in attempts:
        try:
            content = read_manifest(folder)
            tensors = load(checked_bytes(folder / STATE, content["state"]))
            accept(content, tensors)
            segments, damaged = content["segments"], list[str]()
            if replay is not None:
                damaged = fill(replay, run, segments, lossy)
                restore_replay(replay, tensors)
            newer = [why for f, why in rejected.items() if int(f.name) > content["step"]]
            sha256 = content["state"]["sha256"]
            return Checkpoint(
                content["step"], tensors, content["facts"], segments, newer, sha256, damaged
            )
        except Invalid as error:
            problem = str(error)
        except SafetensorError as error:
            problem = f"{STATE} is malformed ({first_line(error)})"
        rejected.setdefault(folder, f"checkpoint {folder.name} is not used: {problem}")
    if rejected:
        raise UserError(f"No checkpoint in {run} can be used: {'; '.join(rejected.values())}.")
    return None


def restore_replay(replay: Replay, tensors: Mapping[str, Tensor]) -> None:
    """Restore what a replay buffer has besides its transitions. Raises Invalid."""
    own = {k.removeprefix("replay/"): t for k, t in tensors.items() if k.startswith("replay/")}
    if unknown := own.keys() - replay.tensors().keys():
        raise Invalid(f"it has an unknown tensor {f'replay/{min(unknown)}'[:60]!r}")
    try:
        replay.restore(own)
    except (IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise Invalid(
            f"its tensors of the replay buffer do not fit: {first_line(error)}"
        ) from error

"""A checkpoint as a run folder of its own, which can be copied elsewhere and resumed.

    kept/000100000/    config.toml metrics.jsonl events.jsonl checkpoints/ replay/ policy/

`checkpoint.keep_every` makes such folders inside a run. Their large files are hard links to those
of the run, so they need space only when the run has removed its own. td3 never changes such files.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from td3.errors import UserError, cannot_write
from td3.files import (
    TEMPORARY,
    flush_path,
    make_folder,
    make_folders,
    read_pieces,
    read_regular,
    remove,
    remove_folder,
    rename,
    replace_file,
    write_durably,
)
from td3.run.aside import place_aside, set_aside, set_checkpoint_aside
from td3.run.manifest import (
    CHECKPOINT_NAME,
    FILES,
    MANIFEST,
    STATE,
    Invalid,
    by_step,
    read_manifest,
)
from td3.run.segments import checked_bytes
from td3.untrusted import LONGEST

KEPT_RUNS = "kept"
ATTEMPTS = 10  # to copy a checkpoint of a run that is going on


def kept_runs(run: Path) -> dict[int, Path]:
    """Step → run folder of each checkpoint that is kept forever, oldest first."""
    found = [
        folder
        for folder in (run / KEPT_RUNS).glob("*")
        if CHECKPOINT_NAME.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink()
    ]
    return {int(folder.name): folder for folder in sorted(found, key=lambda f: int(f.name))}


def keep_checkpoint(run: Path, step: int) -> None:
    """Keep a checkpoint forever. One of this step that an earlier attempt made is replaced."""
    target = run / KEPT_RUNS / f"{step:09d}"
    make_folder(target.parent)
    if target.exists():
        set_aside(run, target)
    copy_checkpoint(run, step, target, link=True)


def copy_run(run: Path, target: Path, step: int | None = None) -> int:
    """Copy a run as it was at this checkpoint, or at the newest one; returns its step.

    Works while the run is going on.
    """
    if os.path.lexists(target):
        raise UserError(f"{target} exists; choose another folder.")
    try:
        make_folders(target.parent)
        for _ in range(ATTEMPTS):
            source, at = find_checkpoint(run, step)
            try:
                copy_checkpoint(source, at, target)
            except (FileNotFoundError, Invalid) as error:
                problem = error
                continue  # a run that is going on has removed it
            return at
    except OSError as error:
        raise UserError(f"{cannot_write(error)}.") from error
    finally:
        if not target.exists():
            shutil.rmtree(target.with_name(TEMPORARY + target.name), ignore_errors=True)
    raise UserError(f"The checkpoint of step {at:,} in {run} cannot be copied: {problem}.")


def find_checkpoint(run: Path, step: int | None) -> tuple[Path, int]:
    """The folder that has this checkpoint, or the newest one: the run or one in `kept`."""
    regular, kept = [int(folder.name) for folder in by_step(run)], kept_runs(run)
    known = sorted({*regular, *kept})
    if step is None and known:
        step = known[-1]
    if step in regular:
        return run, step
    if step in kept:
        return kept[step], step
    steps = ", ".join(f"{known:,}" for known in known) or "none"
    asked = "" if step is None else f" of step {step:,}"
    raise UserError(f"{run} has no checkpoint{asked}; it has: {steps}.")


def copy_checkpoint(run: Path, step: int, target: Path, link: bool = False) -> None:
    """Make `target` a run folder with one checkpoint and all that it needs, complete or absent.

    With `link`, large files become links to those of `run`. Raises Invalid if one is damaged.
    """
    name = f"{step:09d}"
    content = read_manifest(run / "checkpoints" / name)
    temporary = target.with_name(TEMPORARY + target.name)
    for inner in ("", "checkpoints", f"checkpoints/{name}", "replay", "policy"):
        make_folder(temporary / inner)
    for segment in content["segments"]:
        place(run / "replay" / segment["file"], temporary / "replay", segment, link)
    for file in sorted((run / "policy").glob("agent-*.safetensors")):
        write_durably(temporary / "policy" / file.name, [read_policy(file, content)])
    own = temporary / "checkpoints" / name
    place(run / "checkpoints" / name / STATE, own, content["state"], link)
    write_durably(own / MANIFEST, [read_regular(run / "checkpoints" / name / MANIFEST, LONGEST)])
    for file_name, pieces in texts_of(run, content["facts"]).items():
        write_durably(temporary / file_name, pieces)
    for folder in (own, own.parent, temporary / "replay", temporary / "policy", temporary):
        flush_path(folder)
    rename(temporary, target)
    flush_path(target.parent)


def place(source: Path, folder: Path, facts: Mapping[str, Any], link: bool) -> None:
    """Link or copy a file into a folder; one that is there is intact until it is replaced."""
    temporary = folder / (TEMPORARY + source.name)
    remove(temporary)
    try:
        if not link:
            raise OSError
        os.link(source, temporary, follow_symlinks=False)
    except OSError:  # or this file system has no links
        write_durably(temporary, [checked_bytes(source, facts)])
    rename(temporary, folder / source.name)
    remove(temporary)  # renaming does nothing if both are links to one file


def read_policy(file: Path, content: Mapping[str, Any]) -> bytes:
    """A policy; it has no more tensors than the checkpoint."""
    return read_regular(file, LONGEST + content["state"]["bytes"])


def texts_of(run: Path, facts: Mapping[str, Any]) -> dict[str, Iterable[bytes]]:
    """The settings, records and events of a run as they were at a checkpoint, by file name."""
    settings = facts.get("config_file", "").encode()
    events = read_regular(run / "events.jsonl", LONGEST).splitlines(keepends=True)
    return {
        "config.toml": [settings or read_regular(run / "config.toml", LONGEST)],
        "metrics.jsonl": read_pieces(run / "metrics.jsonl", facts["metrics_bytes"]),
        "events.jsonl": [line for line in events if is_until(line, facts["step"])],
    }


def is_until(event: bytes, step: int) -> bool:
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return int(json.loads(event)["step"]) <= step
    return False


def rewind(run: Path, step: int) -> str:
    """Make the checkpoint of this step the newest one of a run; returns a remark.

    What is newer becomes a run folder of its own in `aside`. If this is interrupted, the run
    continues from the newest checkpoint or from this one, and can be asked again.
    """
    source, _ = find_checkpoint(run, step)
    kept = kept_runs(run).get(step)
    if kept and is_intact(kept, step):
        source = kept  # it has the policies of that time
    verify(source, step)
    remark = f"continued from step {step:,} on request"
    newer = [folder for folder in by_step(run) if int(folder.name) > step]
    if newer:
        try:
            place_for_newest = place_aside(run, newer[0].name)
            copy_checkpoint(run, int(newer[0].name), place_for_newest, link=True)
            remark += f"; the run as it was is now {place_for_newest}"
        except (Invalid, FileNotFoundError):
            set_checkpoint_aside(run, newer.pop(0))
    for at, folder in kept_runs(run).items():
        if at > step:
            set_aside(run, folder)
    if source != run and not is_intact(run, step):
        take_checkpoint(source, run, step)
    for folder in newer:
        remove_folder(folder, FILES)
    if source != run:
        take_results(source, run, step)
    return remark


def verify(run: Path, step: int) -> None:
    """Raises UserError if a file of this checkpoint is damaged."""
    folder = run / "checkpoints" / f"{step:09d}"
    try:
        content = read_manifest(folder)
        checked_bytes(folder / STATE, content["state"])
        for segment in content["segments"]:
            checked_bytes(run / "replay" / segment["file"], segment)
    except Invalid as error:
        raise UserError(f"{folder} is damaged: {error}.") from error


def is_intact(run: Path, step: int) -> bool:
    """Whether a folder has this checkpoint, complete."""
    with suppress(UserError):
        verify(run, step)
        return True
    return False


def take_checkpoint(kept: Path, run: Path, step: int) -> None:
    """Put a kept checkpoint and its replay files back into its run."""
    name = f"{step:09d}"
    content, own = read_manifest(kept / "checkpoints" / name), run / "checkpoints" / name
    for folder in (run / "replay", own.parent, own):
        make_folder(folder)
    for segment in content["segments"]:
        place(kept / "replay" / segment["file"], run / "replay", segment, link=True)
    flush_path(run / "replay")
    place(kept / "checkpoints" / name / STATE, own, content["state"], link=True)
    replace_file(own / MANIFEST, read_regular(kept / "checkpoints" / name / MANIFEST, LONGEST))


def take_results(kept: Path, run: Path, step: int) -> None:
    """Give a run the policies and records of a kept checkpoint."""
    content = read_manifest(kept / "checkpoints" / f"{step:09d}")
    make_folder(run / "policy")
    for file in (kept / "policy").glob("agent-*.safetensors"):
        replace_file(run / "policy" / file.name, read_policy(file, content))
    length = content["facts"]["metrics_bytes"]
    replace_file(run / "metrics.jsonl", read_pieces(kept / "metrics.jsonl", length))

"""The manifest of a checkpoint: everything that is not a tensor, checked before it is used."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from td3.files import TEMPORARY, digest, read_regular
from td3.untrusted import (
    LONGEST,
    Malformed,
    anything,
    integer,
    items,
    mapping,
    nullable,
    number,
    parse_json,
    table,
    text,
)

FORMAT = 3
STATE, MANIFEST = "state.safetensors", "manifest.json"
FILES = (MANIFEST, STATE)  # removed in this order: a folder without a manifest is not a checkpoint
CHECKPOINT_NAME = re.compile("[0-9]{9}|[1-9][0-9]{9,17}", re.ASCII)  # as f"{step:09d}" writes it
SEGMENT_NAME = re.compile(rf"({CHECKPOINT_NAME.pattern})\.rows", re.ASCII)

checksum = text("[0-9a-f]{64}", "a SHA-256 checksum")
file_facts = {"bytes": integer(), "sha256": checksum}
counts = items(integer())
SEGMENT = table(
    {
        **file_facts,
        "file": text(SEGMENT_NAME.pattern, "the name of a replay segment"),
        "tables": mapping(table({"start": counts, "stop": counts})),
        "dims": items(integer(0, 2**31), 2),
    },
    {"lives": counts},
)
STREAM = table(
    {
        "bit_generator": text("PCG64", "PCG64"),
        "state": table({"state": integer(0, 2**128 - 1), "inc": integer(0, 2**128 - 1)}),
        "has_uint32": integer(0, 1),
        "uinteger": integer(0, 2**32 - 1),
    }
)
REFILL = table(  # `tuning/refill.py`
    {
        "starts": counts,
        "settings": items(mapping(number)),
        "replaced": counts,
        "random": mapping(STREAM),
    },
    {"emptied": counts},
)
FACTS = table(
    {
        "step": integer(),
        "best": items(nullable(number)),
        "metrics_bytes": integer(),
        "config": table({"loop": table({"steps": integer(1)})}),
        "streams": mapping(STREAM),
    },
    {
        "frozen": counts,
        "evaluating": nullable(integer()),
        "plain": items(text()),
        "refill": REFILL,
        "metrics_sha256": checksum,
        "config_file": text(),
    },
)
CONTENT = table(
    {
        "format": anything,
        "step": integer(),
        "state": table(file_facts),
        "segments": items(SEGMENT),
        "facts": FACTS,
    }
)


class Invalid(Exception):
    """A checkpoint that must not be used; the message tells what is wrong with it."""


def seal(body: Mapping[str, Any]) -> bytes:
    """JSON, followed by a line with its checksum."""
    content = json.dumps(body, indent=1).encode()
    return content + b"\n" + digest(content).encode() + b"\n"


def unseal(data: bytes) -> dict[str, Any]:
    """The content of a manifest. Raises Invalid if the checksum, the format or a value is wrong."""
    content, _, found = data.rstrip(b"\n").rpartition(b"\n")
    if data != content + b"\n" + found + b"\n" or digest(content).encode() != found:
        raise Invalid(f"{MANIFEST} fails its checksum")
    try:
        body = parse_json(content)
        mapping()(body, MANIFEST)
        if body.get("format") != FORMAT:
            other = repr(body.get("format"))[:40]
            raise Invalid(f"it has format {other}, and this td3 reads format {FORMAT}")
        CONTENT(body, MANIFEST)
        check_counts(body)
    except Malformed as error:
        raise Invalid(f"{MANIFEST} is malformed: {error}") from error
    return dict(body)


def check_counts(body: Mapping[str, Any]) -> None:
    """Check what belongs together in a manifest. Raises Malformed."""
    facts, agents = body["facts"], len(body["facts"]["best"])
    if body["step"] != facts["step"]:
        raise Malformed(f"its step is {body['step']}, that of its facts {facts['step']}")
    for agent in facts.get("frozen", []):
        if agent >= agents:
            raise Malformed(f"agent {agent} is frozen, but there are {agents}")
    before: dict[str, list[int]] = {}
    lives_before = [0] * agents
    for segment in body["segments"]:
        name = segment["file"]
        lives = segment.get("lives", lives_before)
        if len(lives) != agents or any(a > b for a, b in zip(lives_before, lives, strict=True)):
            raise Malformed(f"{name} has wrong lives")
        same = [a == b for a, b in zip(lives_before, lives, strict=True)]
        lives_before = lives
        for key, own in segment["tables"].items():
            start, stop = own["start"], own["stop"]
            if not len(start) == len(stop) == agents:
                raise Malformed(f"{name} is not of {agents} agents")
            if any(a > b for a, b in zip(start, stop, strict=True)):
                raise Malformed(f"{name} stops before it starts")
            last = before.get(key, start)
            # A segment leaves out transitions that were overwritten before it was written.
            if any(a > b for a, b, c in zip(last, start, same, strict=True) if c):
                raise Malformed(f"{name} repeats transitions of the segment before")
            before[key] = stop


def read_manifest(folder: Path) -> dict[str, Any]:
    """The content of a checkpoint's manifest. Raises Invalid."""
    try:
        body = unseal(read_regular(folder / MANIFEST, LONGEST))
    except OSError as error:
        raise Invalid(f"{MANIFEST} cannot be read ({error.strerror})") from error
    if f"{body['step']:09d}" != folder.name:
        raise Invalid(f"it is the checkpoint of step {body['step']:,}")
    return body


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

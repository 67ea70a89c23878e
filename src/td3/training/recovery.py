"""Files of a run that a checkpoint needs besides its own: what to do if they are damaged."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from td3.errors import UserError
from td3.files import JsonLines, replace_file
from td3.policy.file import read_policy_file
from td3.run.aside import copy_aside, set_aside
from td3.training.recorder import Recorder
from td3.training.state import TrainingState


def restore_metrics(recorder: Recorder, facts: dict[str, Any]) -> list[str]:
    """Remove the records after a checkpoint; if those before are damaged, keep what is readable.

    Returns remarks for the user.
    """
    length, path = facts["metrics_bytes"], recorder.run.metrics
    if recorder.metrics.begins_with(length, facts.get("metrics_sha256")):
        recorder.metrics.truncate(length)
        return []
    recorder.metrics.close()
    remark = keep_readable(recorder.run.folder, length, facts["step"])
    recorder.metrics = JsonLines(path)
    recorder.metrics.truncate(path.stat().st_size)
    return [f"not exact: {remark}"]


def keep_readable(run: Path, length: int, last_step: int) -> str:
    """Keep the records of a damaged metrics.jsonl that can be read; returns a remark."""
    path = run / "metrics.jsonl"
    kept, before = readable_records(path, length, last_step), ""
    size = path.stat().st_size
    if size != sum(map(len, kept)):
        before = f"; the old file is {copy_aside(run, path)}" if size else ""
        replace_file(path, b"".join(kept))
    return (
        f"{path.name} is not as it was when the checkpoint was written; "
        f"{len(kept)} readable records are kept{before}"
    )


def readable_records(path: Path, length: int, last_step: int) -> list[bytes]:
    """The records in the first `length` bytes of metrics.jsonl that can be read."""
    records = JsonLines(path)
    kept = [line for line in records.lines(length) if is_record(line, last_step)]
    records.close()
    return kept


def is_record(line: bytes, last_step: int) -> bool:
    """Whether a line of metrics.jsonl is complete and not newer than this step."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return line.endswith(b"\n") and int(json.loads(line)["step"]) <= last_step
    return False


def check_policies(state: TrainingState) -> list[str]:
    """Check the policies of a resumed run; damaged ones are moved aside.

    The next evaluation then writes the best policy again. Returns remarks for the user.
    """
    remarks = []
    for agent, best in enumerate(state.best):
        if not np.isfinite(best):
            continue  # it had no evaluation yet
        for last in (False, True):
            file = state.recorder.run.policy_file(agent, last)
            if last and not file.exists():
                continue  # older versions kept no last policy
            if problem := damage_of(state.recorder.run.folder, file):
                if not last:
                    state.best[agent] = -np.inf
                kind = "a new best one" if not last else "it again"
                exact = "" if last else "not exact: "
                remarks.append(f"{exact}{problem}; the next evaluation writes {kind}")
    return remarks


def damage_of(run: Path, policy: Path) -> str:
    """What is wrong with a policy, which is then moved aside; empty if it is intact."""
    if not policy.exists():
        return f"{policy} is missing"
    try:
        read_policy_file(policy)
    except UserError as error:
        return f"{str(error).rstrip('.')} and is now {set_aside(run, policy)}"
    return ""

"""Verify a run folder, and move what cannot be used aside."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from td3.config.toml import parse_toml
from td3.doctor.check import Check, check_from_error
from td3.errors import UserError
from td3.files import TEMPORARY, read_pieces, replace_file
from td3.policy.file import read_policy_file
from td3.run import checkpoint
from td3.run.aside import set_aside, set_checkpoint_aside
from td3.run.copies import kept_runs
from td3.run.folder import check_entries, config_of, is_finished, read_config
from td3.run.lock import is_locked, lock_run
from td3.run.manifest import STATE, Invalid, by_step, own_folders, read_manifest
from td3.run.segments import checked_bytes
from td3.run.versions import differences
from td3.text import count
from td3.training.recovery import keep_readable

HINT = "td3 doctor RUN --repair keeps the newest valid state and moves the rest to RUN/aside."
KEEPS_READABLE = (
    "td3 resume and --repair keep the readable records. Its next checkpoint stores a new checksum."
)
IGNORED = "td3 resume does without it."


@dataclass
class RunState:
    """What is valid in a run folder."""

    run: Path
    checkpoints: dict[Path, str] = field(default_factory=dict)
    """Folder of each checkpoint, newest first → what is wrong with it; empty if it is complete."""
    contents: dict[Path, dict[str, Any]] = field(default_factory=dict)
    """The manifest of each checkpoint whose own files are intact."""
    segments: dict[str, str] = field(default_factory=dict)
    """Name of each replay file that a checkpoint uses → what is wrong with it."""

    def __post_init__(self) -> None:
        for folder in by_step(self.run):
            self.checkpoints[folder] = self.examine(folder)

    def examine(self, folder: Path) -> str:
        try:
            content = read_manifest(folder)
            checked_bytes(folder / STATE, content["state"])
        except Invalid as error:
            return str(error)
        self.contents[folder] = content
        for segment in content["segments"]:
            if segment["file"] not in self.segments:
                self.segments[segment["file"]] = problem_of(self.run, segment)
        return "; ".join(filter(None, map(self.segments.get, segment_names(content))))

    @property
    def chosen(self) -> Path | None:
        """The checkpoint that td3 resume uses: as `newest_checkpoint` chooses."""
        regular = list(self.checkpoints)[: checkpoint.KEPT]
        complete = (folder for folder in regular if not self.checkpoints[folder])
        return next(complete, next(iter(self.contents), None))


def segment_names(content: dict[str, Any]) -> list[str]:
    return [segment["file"] for segment in content["segments"]]


def problem_of(run: Path, segment: dict[str, Any]) -> str:
    try:
        checked_bytes(run / "replay" / segment["file"], segment)
    except Invalid as error:
        return f"replay/{error}"
    return ""


def is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("config.toml", "checkpoints"))


def check_run(run: Path) -> list[Check]:
    """Verify everything in a run folder; the last check states how the run can be continued."""
    state = RunState(run)
    checks = [*check_settings(run), *check_checkpoints(state), check_metrics(state)]
    checks += [*check_policies(run), *check_kept(run), *check_rest(run)]
    if is_locked(run):
        checks.append(Check("lock", "warning", "A process trains in this folder now."))
    return [*checks, check_resume(state, has_settings=checks[0].status != "error")]


def check_settings(run: Path) -> Iterator[Check]:
    try:
        check_entries(run)
        checkpoint.check_entries(run)
        config, origin = read_config(run)
    except UserError as error:
        yield check_from_error("settings", error)
        return
    if (run / "config.toml").exists():
        yield Check("settings", "ok", f"{config.environment.id}, {count(config.agents, 'agent')}")
    else:
        yield Check("settings", "warning", "config.toml is missing; a checkpoint has a copy.", HINT)
    origin.pop("environment", None)  # only td3 resume makes one
    if changed := differences(origin, {}):
        advice = "Results after td3 resume are not exact."
        yield Check("versions", "warning", f"{'; '.join(changed)}.", advice)
    else:
        yield Check("versions", "ok", "those of this machine")


def check_checkpoints(state: RunState) -> Iterator[Check]:
    for folder, problem in state.checkpoints.items():
        if problem:
            yield Check("checkpoint", "error", f"{folder.name}: {problem}.", HINT)
        else:
            files = count(len(state.contents[folder]["segments"]), "replay file")
            yield Check("checkpoint", "ok", f"{folder.name}: complete, with {files}")


def check_metrics(state: RunState) -> Check:
    if damage := metrics_damage(state):
        return Check("metrics", "error", f"metrics.jsonl {damage}.", KEEPS_READABLE)
    return Check("metrics", "ok", "metrics.jsonl has all records up to the checkpoint")


def metrics_damage(state: RunState) -> str:
    if state.chosen is None:
        return "" if (state.run / "metrics.jsonl").exists() else "is missing"
    facts = state.contents[state.chosen]["facts"]
    length, checksum = 0, hashlib.sha256()
    try:
        for piece in read_pieces(state.run / "metrics.jsonl", facts["metrics_bytes"]):
            length += len(piece)
            checksum.update(piece)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if length < facts["metrics_bytes"]:
        return f"has {length:,} bytes, not {facts['metrics_bytes']:,}"
    intact = facts.get("metrics_sha256") in (None, checksum.hexdigest())
    return "" if intact else "fails its checksum"


def check_policies(run: Path) -> Iterator[Check]:
    policies = sorted((run / "policy").glob("agent-*.safetensors"))
    problems = {file: problem for file in policies if (problem := policy_damage(file))}
    for problem in problems.values():
        yield Check("policy", "error", problem, HINT)
    if not problems:
        yield Check("policy", "ok", f"{count(len(policies), 'file')}, all complete")


def policy_damage(file: Path) -> str:
    try:
        read_policy_file(file)
    except UserError as error:
        return str(error)
    return ""


def check_kept(run: Path) -> Iterator[Check]:
    for step, folder in kept_runs(run).items():
        if problem := kept_damage(folder):
            yield Check("kept", "error", f"step {step:,}: {problem}.", HINT)
        else:
            yield Check("kept", "ok", f"step {step:,}: complete")


def kept_damage(folder: Path) -> str:
    checkpoints = RunState(folder).checkpoints
    return "; ".join(filter(None, checkpoints.values())) if checkpoints else "it has no checkpoint"


def check_rest(run: Path) -> Iterator[Check]:
    left = [folder for folder in own_folders(run) if folder.name.startswith(TEMPORARY)]
    if left:
        yield Check("rest", "warning", f"{left[0].name} was left by a kill.", IGNORED)


def check_resume(state: RunState, has_settings: bool = True) -> Check:
    """How the run can be continued."""
    if state.chosen is None:
        why = "it has no checkpoint" if not state.checkpoints else "no checkpoint is complete"
        return Check("resume", "error", f"The run cannot be continued: {why}.")
    if not has_settings:
        return Check("resume", "error", "The run cannot be continued: see its settings above.")
    content = state.contents[state.chosen]
    at, also = f"td3 resume continues at step {content['step']:,}", "with --at also"
    total = content["facts"]["config"]["loop"]["steps"]
    if content["step"] >= total and is_finished(state.run):
        at = f"finished at step {total:,}; td3 resume RUN --steps N trains longer"
        also = "--at continues"
    if problem := state.checkpoints[state.chosen]:
        return Check("resume", "warning", f"{at}, not exact: transitions are lost ({problem}).")
    kept = {step for step, folder in kept_runs(state.run).items() if not kept_damage(folder)}
    whole = {state.contents[f]["step"] for f, problem in state.checkpoints.items() if not problem}
    others = sorted(kept | whole)
    steps = ", ".join(f"{step:,}" for step in others if step != content["step"])
    return Check("resume", "ok", at + (f"; {also} at {steps}" if steps else ""))


def repair_run(run: Path) -> list[str]:
    """Keep the newest valid state and move the rest aside; returns what was done.

    Raises UserError if the run cannot be continued, before anything is changed.
    """
    with lock_run(run):
        state = RunState(run)
        if state.chosen is None:
            raise UserError(f"{run} cannot be repaired: {check_resume(state).message}")
        check_entries(run)
        checkpoint.check_entries(run)
        return [*repair_checkpoints(state, state.chosen), *repair_files(state, state.chosen)]


def repair_checkpoints(state: RunState, chosen: Path) -> Iterator[str]:
    """Move aside: damaged checkpoints, and damaged replay files that the chosen one lists."""
    for folder, problem in state.checkpoints.items():
        if problem and folder != chosen:
            yield f"{folder.name} is now {set_checkpoint_aside(state.run, folder)}"
    checkpoint.forget_after(state.run, state.contents[chosen]["step"])
    for folder in kept_runs(state.run).values():
        if kept_damage(folder):
            yield f"kept/{folder.name} is now {set_aside(state.run, folder)}"
    for name, problem in state.segments.items():
        if problem and (state.run / "replay" / name).exists():
            yield f"replay/{name} is now {set_aside(state.run, state.run / 'replay' / name)}"


def repair_files(state: RunState, chosen: Path) -> Iterator[str]:
    facts, run = state.contents[chosen]["facts"], state.run
    text = facts.get("config_file", "")
    if needs_settings(run) and is_config(text):
        if (run / "config.toml").exists():
            yield f"config.toml is now {set_aside(run, run / 'config.toml')}"
        replace_file(run / "config.toml", text.encode())
        yield f"config.toml is the copy in checkpoint {chosen.name}"
    if metrics_damage(state):
        yield keep_readable(run, facts["metrics_bytes"], facts["step"])
    for file in sorted((run / "policy").glob("agent-*.safetensors")):
        if policy_damage(file):
            yield f"{file.name} is now {set_aside(run, file)}"


def needs_settings(run: Path) -> bool:
    """Whether config.toml is missing or cannot be used."""
    try:
        read_config(run)
    except UserError:
        return True
    return not (run / "config.toml").exists()


def is_config(text: str) -> bool:
    try:
        config_of(parse_toml(text))
    except (UserError, ValueError):
        return False
    return bool(text)

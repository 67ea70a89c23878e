"""The run folder. Training writes it; all other commands only need this folder.

config.toml      all settings of the run; versions of packages; the machine
metrics.jsonl    results per agent; repeating or resuming the run gives the same bytes
events.jsonl     what happened when: wall-clock times, resumes, warnings
checkpoints/ replay/ policy/ videos/ plots/
"""

import contextlib
import os
import re
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from td3.config import Config, from_dict, to_dict
from td3.config.toml import parse_toml, read_toml, to_toml
from td3.errors import UserError, nearest
from td3.files import (
    TEMPORARY,
    JsonLines,
    check_file,
    check_folder,
    last_lines,
    make_folder,
    make_folders,
    read_regular,
    refuse_link,
    replace_file,
)
from td3.run.manifest import Invalid, by_step, read_manifest
from td3.run.versions import describe_machine, versions
from td3.untrusted import LONGEST

FORMAT = 1  # of config.toml, metrics.jsonl and events.jsonl; events.jsonl has it
FILES = ("config.toml", "metrics.jsonl", "events.jsonl")
FACTS = ("code", "source")
"""Tables of config.toml besides settings: code of the user, and what the run started from."""
POLICY_NAME = re.compile(r"agent-[0-9]+(-last|-step-[0-9]+)?\.safetensors")


class RunFolder:
    """A run folder that this process trains in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = JsonLines(folder / "events.jsonl")
        self.config = ""
        self.unwritten: dict[Path, bytes] = {}
        """Files that could not be written yet, for example because the disk was full."""

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    def event(self, event: str, **facts: Any) -> None:
        """Append an event with the current time to events.jsonl."""
        self.events.write({"time": round(time.time(), 3), "event": event, **facts})

    def write_later(self, path: Path, data: bytes) -> None:
        """Write a file now, or in the next `write_rest` if that fails."""
        self.unwritten[path] = data
        with contextlib.suppress(OSError):
            self.write_rest()

    def write_rest(self) -> None:
        """Write what could not be written before."""
        for path, data in list(self.unwritten.items()):
            make_folder(path.parent)
            replace_file(path, data)
            del self.unwritten[path]

    def config_text(self) -> str:
        """The content of config.toml, of which every checkpoint keeps a copy."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            self.config = read_regular(self.folder / "config.toml", LONGEST).decode()
        return self.config

    @property
    def finished(self) -> bool:
        return is_finished(self.folder)

    def policy_file(self, agent: int, last: bool = False, step: int | None = None) -> Path:
        """The file of an agent's best policy, of the last one evaluated, or of one that is kept."""
        kind = "-last" if last else "" if step is None else f"-step-{step}"
        return self.folder / "policy" / f"agent-{agent}{kind}.safetensors"


def is_finished(folder: Path) -> bool:
    """Whether the last event is the end of training. A kill may come just before it."""
    events = folder / "events.jsonl"
    lines = last_lines(events) if events.exists() else []
    return bool(lines) and b'"event": "finish"' in lines[-1]


def create(
    config: Config,
    folder: Path | None,
    here: Path = Path(),
    more_versions: Mapping[str, str] | None = None,
) -> Path:
    """Make a run folder with its config.toml. Existing files are never overwritten.

    Without `folder`, it is a new one in `here / "runs"`.
    """
    if folder is None:
        name = f"{folder_name(config.environment.id)}-{config.recipe}"
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder = unused_path(here / "runs" / f"{name}-seed{config.seed}-{stamp}")
    refuse_used(folder)
    used = versions() | dict(more_versions or {})
    tables = to_dict(config) | {"versions": used, "machine": describe_machine()}
    try:
        make_folders(folder)
        replace_file(folder / "config.toml", to_toml(tables).encode())
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}.") from error
    return folder


def refuse_used(folder: Path) -> None:
    """Refuse a folder that already contains something."""
    if (folder / "config.toml").exists():
        raise UserError(
            f"{folder} already contains a run. Continue it: td3 resume {shlex.quote(str(folder))}, "
            "or choose another folder."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            f"{folder} exists and is not an empty folder; choose another one with --run."
        )


def folder_name(env_id: str) -> str:
    """The id of a task as a folder name."""
    return re.sub(r"[^\w.]+", "-", env_id).strip("-")


def rewrite_config(folder: Path, config: Config, origin: dict[str, str]) -> None:
    """Write other settings to config.toml; keep the versions and the machine of the start."""
    machine_keys = describe_machine().keys()
    tables = to_dict(config) | {
        "versions": {k: v for k, v in origin.items() if k not in machine_keys},
        "machine": {k: v for k, v in origin.items() if k in machine_keys},
    }
    tables |= {name: facts for name in FACTS if (facts := read_facts(folder, name))}
    replace_file(folder / "config.toml", to_toml(tables).encode())


def read_facts(folder: Path, name: str) -> dict[str, Any]:
    """What `write_facts` wrote; empty if nothing."""
    facts = read_tables(folder).get(name, {})
    return facts if isinstance(facts, dict) else {}


def write_facts(folder: Path, name: str, facts: Mapping[str, Any]) -> None:
    """Record a table of facts in config.toml that are no settings; `name` is one of FACTS."""
    tables = {key: table for key, table in read_tables(folder).items() if key != name}
    if facts:
        tables[name] = dict(facts)
    replace_file(folder / "config.toml", to_toml(tables).encode())


def unused_path(folder: Path) -> Path:
    """The path itself, or with a number added if it exists."""
    candidate, number = folder, 2
    while candidate.exists():
        candidate, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return candidate


def read_config(folder: Path) -> tuple[Config, dict[str, str]]:
    """The settings of a run, and the versions and machine facts of its start."""
    return config_of(read_tables(folder))


def config_of(tables: dict[str, Any]) -> tuple[Config, dict[str, str]]:
    """As `read_config`, of the tables of a config.toml."""
    origin = {**tables.pop("versions", {}), **tables.pop("machine", {})}
    for name in FACTS:
        tables.pop(name, None)
    return from_dict(tables), origin


def read_tables(folder: Path) -> dict[str, Any]:
    """The tables of a run's config.toml. Raises UserError if the folder is not a run.

    If it was lost, the newest checkpoint has a copy.
    """
    if not os.path.lexists(folder / "config.toml"):
        for checkpoint in by_step(folder):
            with contextlib.suppress(Invalid, ValueError):
                facts = read_manifest(checkpoint)["facts"]
                return parse_toml(facts.get("config_file", "")) or dict(facts["config"])
    if not (folder / "config.toml").is_file():
        what = "is not a run folder" if folder.exists() else "does not exist"
        if folder.is_dir():
            what = "is not a run folder (no config.toml)"
        if (folder / "tune.toml").exists():
            raise UserError(f"{folder} is a search; continue it with: td3 tune --resume {folder}")
        hint = nearest(str(folder), (str(c.parent) for c in folder.parent.glob("*/config.toml")))
        if any(folder.glob("*/config.toml")):
            hint = " It contains runs: choose one of them."
        raise UserError(f"{folder} {what}.{hint}")
    return read_toml(folder / "config.toml")


def check_entries(folder: Path) -> None:
    """Refuse links at the names that td3 writes to, except checkpoints (`checkpoint.py`)."""
    for name in FILES:
        check_file(folder / name)
        check_file(folder / (TEMPORARY + name))
    check_folder(folder / "policy")
    for path in (folder / "policy").glob("*"):
        if POLICY_NAME.fullmatch(path.name.removeprefix(TEMPORARY)):
            refuse_link(path)

"""The run folder: the only thing that the tools share.

config.toml      what was asked, resolved; machine, library and simulator versions
metrics.jsonl    results, per agent; the same bytes whenever the run is repeated or resumed
events.jsonl     what happened when: wall-clock times, resumes, warnings
checkpoints/ replay/ policy/ videos/ plots/
"""

import fcntl
import functools
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from td3.config import Config, from_dict, to_dict
from td3.config.toml import read_toml, to_toml
from td3.errors import RunBusy, UserError, nearest
from td3.files import (
    TEMPORARY,
    JsonLines,
    check_file,
    check_folder,
    open_regular,
    refuse_link,
    replace_file,
)

FILES = ("config.toml", "metrics.jsonl", "events.jsonl")
POLICY_NAME = re.compile(r"agent-[0-9]+\.safetensors")
PACKAGES = ("td3", "torch", "numpy", "gymnasium", "mujoco", "dm_control", "pybullet", "Box2D")


class Run:
    """A run folder, opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = JsonLines(folder / "events.jsonl")

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    def event(self, event: str, **facts: Any) -> None:
        """Note what happened and when."""
        self.events.write({"time": round(time.time(), 3), "event": event, **facts})

    @property
    def finished(self) -> bool:
        """Whether its end was noted; a kill may come between the last checkpoint and that."""
        lines = (self.folder / "events.jsonl").read_bytes().splitlines()
        return bool(lines) and b'"event": "finish"' in lines[-1]

    def policy_file(self, agent: int) -> Path:
        return self.folder / "policy" / f"agent-{agent}.safetensors"


def versions() -> dict[str, str]:
    """Versions of what the result depends on, of those that are installed."""
    found = {"python": platform.python_version()}
    if checkout := commit():
        found["commit"] = checkout
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def commit() -> str | None:
    """The commit of this code, if it runs from a checkout; '+' says that it was changed since."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        # An installed copy may lie inside somebody else's checkout, but is not tracked there.
        git("ls-files", "--error-unmatch", "__init__.py")
        newest = git("log", "-1", "--format=%H", "--", ".")
        return newest + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def machine() -> dict[str, str]:
    """The machine, in the words that make its arithmetic comparable."""
    found = {
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if torch := sys.modules.get("torch"):  # a tool that only reads runs does without
        found |= {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
    return found


def processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.*)$", text, re.MULTILINE))
    return " ".join(
        str(fields[key]) for key in ("model name", "cpu family", "model") if key in fields
    )


def create(config: Config, folder: Path | None) -> Path:
    """Make a new run folder with its config.toml; nothing that exists is overwritten."""
    if folder is None:
        name = f"{folder_name(config.environment.id)}-{config.recipe}"
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder = unused(Path("runs") / f"{name}-seed{config.seed}-{stamp}")
    if (folder / "config.toml").exists():
        raise UserError(
            f"{folder} already holds a run; continue it with 'td3 resume {folder}' or name another."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not an empty folder; name another with --run.")
    tables = to_dict(config) | {"versions": versions(), "machine": machine()}
    try:
        folder.mkdir(parents=True, exist_ok=folder.is_dir())
        replace_file(folder / "config.toml", to_toml(tables).encode())
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}.") from error
    return folder


def folder_name(env_id: str) -> str:
    """A task's id as the name of a folder."""
    return env_id.replace("/", "-").replace(":", "-")


def rewrite(folder: Path, config: Config, origin: dict[str, str]) -> None:
    """Change what is asked of a run, keeping what it was started with."""
    machine_keys = machine().keys()
    tables = to_dict(config) | {
        "versions": {k: v for k, v in origin.items() if k not in machine_keys},
        "machine": {k: v for k, v in origin.items() if k in machine_keys},
    }
    replace_file(folder / "config.toml", to_toml(tables).encode())


def unused(folder: Path) -> Path:
    """The folder, or the same with a number where that exists."""
    candidate, number = folder, 2
    while candidate.exists():
        candidate, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return candidate


def read_config(folder: Path) -> tuple[Config, dict[str, str]]:
    """The configuration of an existing run, and the versions and machine it was started with."""
    tables = read_tables(folder)
    origin = {**tables.pop("versions", {}), **tables.pop("machine", {})}
    return from_dict(tables), origin


def read_tables(folder: Path) -> dict[str, Any]:
    """The tables of a run's config.toml, or why this is not a run."""
    if not (folder / "config.toml").is_file():
        what = "is no run folder" if folder.exists() else "does not exist"
        if folder.is_dir():
            what = "holds no run (no config.toml)"
        hint = nearest(str(folder), (str(c.parent) for c in folder.parent.glob("*/config.toml")))
        if any(folder.glob("*/config.toml")):
            hint = " It holds runs: name one of them."
        raise UserError(f"{folder} {what}.{hint}")
    return read_toml(folder / "config.toml")


def check_entries(folder: Path) -> None:
    """Refuse links under the names that td3 writes to; checkpoints are not looked at."""
    for name in FILES:
        check_file(folder / name)
        check_file(folder / (TEMPORARY + name))
    check_folder(folder / "policy")
    for path in (folder / "policy").glob("*"):
        if POLICY_NAME.fullmatch(path.name.removeprefix(TEMPORARY)):
            refuse_link(path)


def differences(origin: dict[str, str]) -> list[str]:
    """What is not as it was when the run began, of the things that change results."""
    now = versions() | machine()
    return [
        f"{name} was {origin[name]}, is {now.get(name, 'missing')}"
        for name in origin
        if name != "cores" and now.get(name) != origin[name]
    ]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run folder for this process; refuse at once if another one has it."""
    try:
        descriptor = open_regular(folder / ".lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise RunBusy(
            f"{folder} is being trained by process {holder}; stop that one first."
        ) from None
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)

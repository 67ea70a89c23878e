"""The software and the machine that a run depends on."""

import functools
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ("td3", "torch", "numpy", "gymnasium", "mujoco", "dm_control", "pybullet", "Box2D")


def versions() -> dict[str, str]:
    """Versions of Python, of this code and of the installed packages that results depend on."""
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
    """The commit of this code if it runs from a checkout, with "+" if files were changed."""
    package = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(package), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        # An installed copy may lie inside another project's checkout, which does not track it.
        git("ls-files", "--error-unmatch", "__init__.py")
        newest = git("log", "-1", "--format=%H", "--", ".")
        return newest + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def describe_machine() -> dict[str, str]:
    """Processor, cores, system and GPU. The arithmetic may differ between machines."""
    found = {
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if torch := sys.modules.get("torch"):  # not imported here: tools that only read runs are fast
        found |= {"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}
    return found


def processor() -> str:
    """Name, family and model of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.*)$", text, re.MULTILINE))
    return " ".join(
        str(fields[key]) for key in ("model name", "cpu family", "model") if key in fields
    )


def differences(origin: dict[str, str], more_versions: Mapping[str, str]) -> list[str]:
    """Versions and machine facts that differ from `origin`, one phrase each."""
    now = versions() | dict(more_versions) | describe_machine()
    return [
        f"{name} was {origin[name]}, is {now.get(name, 'missing')}"
        for name in origin
        if name != "cores" and now.get(name) != origin[name]
    ]

"""Is everything in place? Checks of the machine and of an environment."""

import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from td3.config import WRAPPERS, Config, EnvironmentConfig, load_recipe
from td3.config.checks import check
from td3.doctor.inspection import Check, count, examine, read_spaces, refusal
from td3.doctor.rehearsal import Tick
from td3.environments.environment import Task, hushed, make, prepare_rendering
from td3.errors import UserError, first_line
from td3.layout import Layout, has_images
from td3.machine import usable_cores
from td3.run import versions as software
from td3.run.memory import (
    available_bytes,
    check_memory,
    disk_bytes,
    example_task,
    gigabytes,
    replay_bytes,
)

SIMPLEST = EnvironmentConfig("Pendulum-v1")  # to render when no task is named, or none can be
Sizes = tuple[int, int, Layout | None]
CHEETAH: Sizes = (17, 6, None)  # HalfCheetah's sizes, to reckon with in the same case
CORE = ("python", "td3", "torch", "numpy", "gymnasium")
DEVELOPMENT = {"test", "dev", "docs"}  # extras that a user has no use for
RENDER_SECONDS = 120

# Rendering is tried in a process of its own: a driver may crash, and MuJoCo chooses once.
RENDER = """
import json, os, sys
from td3.config import EnvironmentConfig
from td3.environments.environment import make
try:
    env = make(EnvironmentConfig(sys.argv[1], json.loads(sys.argv[2])), render_mode="rgb_array")
    env.reset(seed=0)
    result = {"shape": env.render().shape}
except Exception as error:
    result = {"error": f"{type(error).__name__}: {error}", "said": str(error)}
result |= {"mujoco": "mujoco" in sys.modules, "backend": os.environ.get("MUJOCO_GL", "")}
print("\\n" + json.dumps(result))
"""


@dataclass(frozen=True)
class Diagnosis:
    """All checks, and what they were made on."""

    machine: list[Check]
    environment: list[Check] = field(default_factory=list)
    options: str = ""
    """What a task like this is trained with, as options of td3 train."""

    @property
    def checks(self) -> list[Check]:
        return [*self.machine, *self.environment]


def diagnose(
    config: EnvironmentConfig, steps: int = 2000, tick: Tick = lambda steps: None
) -> Diagnosis:
    """Check this machine and, if one is named, an environment."""
    if steps < 1:
        raise UserError(f"steps must be 1 or more, not {steps}.")
    if not config.id:
        return Diagnosis(check_machine(SIMPLEST, CHEETAH))
    check(dataclasses.replace(Config(), environment=config))
    env = made(config)
    if isinstance(env, Check):
        return Diagnosis(check_machine(SIMPLEST, CHEETAH), [env])
    checks, task = read_spaces(env, config)
    sizes = (task.state_dim, task.action_dim, task.layout) if task else CHEETAH
    renders = "rgb_array" in env.metadata.get("render_modes", [])
    machine = check_machine(config if renders else None, sizes)
    if task:
        checks += examine(config, env, task, steps, tick)
    env.close()
    return Diagnosis(machine, checks, options_for(config, task))


def made(config: EnvironmentConfig) -> "gym.Env[Any, Any] | Check":
    """The environment, or what keeps it from being made; bad input is raised."""
    try:
        with warnings.catch_warnings(), hushed(config.id):
            warnings.simplefilter("ignore")  # heard again, and reported, when it is examined
            return make(config)
    except UserError as error:
        cause = error.__cause__
        if cause is None or isinstance(cause, TypeError | gym.error.UnregisteredEnv):
            raise
        if isinstance(cause, ImportError | gym.error.DependencyNotInstalled):
            return refusal("environment", error)
        problem = f"making it raises {type(cause).__name__}: {first_line(cause)}"
        advice = "Mend the environment, or pass it what it needs with --environment.kwargs."
        backend = os.environ.get("MUJOCO_GL")
        if backend and re.search(r"MUJOCO_GL|gl[A-Z]", problem):
            advice = working_backend(config, backend) or "Unset MUJOCO_GL: training needs none."
        return Check("environment", "error", problem, advice)


def check_machine(rendered: EnvironmentConfig | None, sizes: Sizes) -> list[Check]:
    return [
        check_versions(),
        check_processor(),
        check_ring(*sizes),
        check_folder(Path("runs") if Path("runs").is_dir() else Path(), *sizes),
        check_gpu(),
        check_rendering(rendered),
        check_extras(),
    ]


def check_versions() -> Check:
    versions = software.versions()
    core = [f"{name} {versions[name]}" for name in CORE if name in versions]
    simulators = [f"{name} {version}" for name, version in versions.items() if name not in CORE]
    return Check("versions", "ok", ", ".join([*core, *simulators]).replace("python", "Python", 1))


def check_processor() -> Check:
    usable = usable_cores()
    load = os.getloadavg()[0]
    message = (
        f"{software.processor()} ({torch.backends.cpu.get_cpu_capability()}), "
        f"{count(usable, 'core')} usable, load {load:.1f}; runs measure how many to use (--threads)"
    )
    return Check("processor", "ok", message)


def usual(layout: Layout | None) -> Config:
    """The settings that a task like this is trained with."""
    return load_recipe("pixels" if layout and has_images(layout) else "paper")


def options_for(config: EnvironmentConfig, task: Task | None) -> str:
    """Which recipe, what of it does not fit the task, and what was asked for here."""
    if task is None:
        return ""
    own = usual(task.layout).environment
    asked = {
        name: getattr(config, name)
        for name in WRAPPERS
        if getattr(config, name) not in (getattr(own, name), getattr(EnvironmentConfig, name))
    }
    options = ["--recipe pixels"] if has_images(task.layout) else []
    for fitting in ({}, {"resize": 0}, {"resize": 0, "pixels": False}):
        changed = fitting | asked
        try:
            make(dataclasses.replace(own, id=config.id, kwargs=config.kwargs, **changed)).close()
        except UserError:
            continue
        options += [option(name, value) for name, value in changed.items()]
        break
    if config.kwargs:
        pairs = [f"{name} {value}" for name, value in config.kwargs.items()]
        options.append(f"--environment.kwargs {' '.join(pairs)}")
    return " ".join(options)


def option(name: str, value: bool | int) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--environment.{flag}" if value else f"--environment.no-{flag}"
    return f"--environment.{flag} {value}"


def check_ring(state_dim: int, action_dim: int, layout: Layout | None) -> Check:
    """Memory, against the replay ring of the usual settings."""
    config, task = usual(layout), example_task(state_dim, action_dim, layout)
    try:
        place = check_memory(config, task)
    except UserError as error:
        return refusal("memory", error)
    needed, free = replay_bytes(config, task), available_bytes()
    ring = f"a replay ring of {config.loop.replay_size:,} transitions takes {size(needed)}"
    if free is None:
        return Check("memory", "ok", f"unknown here; {ring} per seed")
    where = ", on disk" if place == "disk" else ""
    return Check("memory", "ok", f"{size(free)} free; {ring} per seed{where}")


def check_folder(folder: Path, state_dim: int, action_dim: int, layout: Layout | None) -> Check:
    """Checkpoints keep the whole ring."""
    where = f"{folder}/" if folder.name else "the current folder"
    if not os.access(folder, os.W_OK):
        return Check(
            "disk",
            "error",
            f"{where} cannot be written to",
            "Go to a folder of your own, or name one with --run.",
        )
    config, task = usual(layout), example_task(state_dim, action_dim, layout)
    try:
        place = check_memory(config, task)
    except UserError:  # which is told of the memory
        place = "cpu"
    needed = disk_bytes(config, task, place)
    free = disk_free(folder)
    message = f"{size(free)} free in {where}; a run takes up to {size(needed)} per seed"
    if free < needed:
        return Check(
            "disk",
            "warning",
            message,
            "Free some space, name another disk with --run, or lower --loop.replay-size.",
        )
    return Check("disk", "ok", message)


def disk_free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def check_gpu() -> Check:
    if torch.cuda.is_available():
        devices = range(torch.cuda.device_count())
        cards = [torch.cuda.get_device_properties(device) for device in devices]
        names = ", ".join(f"{card.name} with {size(card.total_memory)}" for card in cards)
        try:
            torch.ones(8, 8, device="cuda").matmul(torch.ones(8, 8, device="cuda")).cpu()
        except RuntimeError as error:
            return Check(
                "GPU",
                "error",
                f"{names}, but it does not compute: {first_line(error)}",
                "Install a torch built for this card, or use --device cpu.",
            )
        return Check("GPU", "ok", f"{names} (--device cuda; chosen by auto)")
    if shutil.which("nvidia-smi") and torch.version.cuda is None:
        return Check(
            "GPU",
            "warning",
            f"there is one, but torch {torch.__version__} has no CUDA",
            "Install torch from https://download.pytorch.org/whl/cu128.",
        )
    return Check("GPU", "ok", "none: runs on CPU")


def check_rendering(config: EnvironmentConfig | None) -> Check:
    """One picture, as `td3 video` would take it."""
    if config is None:
        return Check("rendering", "ok", "not tried: the environment offers no rgb_array pictures")
    prepare_rendering()
    found = render_once(config, {})
    if "shape" in found:
        height, width = found["shape"][:2]
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        how = f"display {display}" if display else "no display needed"
        backend = f", MUJOCO_GL={found['backend'] or 'unset'}" if found["mujoco"] else ""
        return Check("rendering", "ok", f"{config.id}: {width}×{height} pixels, {how}{backend}")
    if found.get("said", "").startswith("No environment"):
        return Check("rendering", "ok", "not tried: registered in this process only")
    return Check(
        "rendering", "warning", f"{config.id}: {found['error']}", render_advice(config, found)
    )


def render_advice(config: EnvironmentConfig, found: dict[str, Any]) -> str:
    """What makes rendering work, tried out where that is possible."""
    if extra := re.search(r"pip install '[^']+'", found["error"]):
        return f"{extra.group()}. Training works without."
    if not found["mujoco"]:
        return "Training works without; videos do not. pip install 'td3[video]' may help."
    return working_backend(config, found["backend"]) or (
        "Install EGL (apt-get install libegl1 libgl1) or OSMesa (apt-get install libosmesa6, and "
        "export MUJOCO_GL=osmesa). Training works without; videos do not."
    )


def working_backend(config: EnvironmentConfig, failed: str) -> str:
    """Advice to use another of MuJoCo's ways to render, if one is found to work."""
    for backend in ("egl", "osmesa"):
        # Importing mujoco sets the second to go with the first.
        changes = {"MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
        if backend != failed and "shape" in render_once(config, changes):
            return f"export MUJOCO_GL={backend}, which works here."
    return ""


def render_once(config: EnvironmentConfig, changes: dict[str, str]) -> dict[str, Any]:
    """The child's findings, or how it died."""
    command = [sys.executable, "-c", RENDER, config.id, json.dumps(config.kwargs)]
    backend = os.environ.get("MUJOCO_GL", "")
    fallback: dict[str, Any] = {"mujoco": "mujoco" in sys.modules, "backend": backend}
    try:
        child = subprocess.run(
            command,
            env=os.environ | changes,
            capture_output=True,
            text=True,
            timeout=RENDER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return fallback | {"error": f"no picture within {RENDER_SECONDS} seconds"}
    try:
        return dict(json.loads(child.stdout.splitlines()[-1]))
    except (IndexError, ValueError):
        how = signal.Signals(-child.returncode).name if child.returncode < 0 else child.returncode
        return fallback | {"error": f"the simulator crashed ({how})"}


def check_extras() -> Check:
    try:
        names = importlib.metadata.metadata("td3").get_all("Provides-Extra") or []
    except importlib.metadata.PackageNotFoundError:
        return Check("extras", "ok", "unknown: td3 runs from its source, it is not installed")
    names = [name for name in names if name not in DEVELOPMENT]
    absent = [name for name in names if not satisfied("td3", name)]
    present = ", ".join(name for name in names if name not in absent) or "none"
    if not absent:
        return Check("extras", "ok", f"all installed: {present}")
    command = f"pip install 'td3[{','.join(absent)}]'"
    return Check("extras", "ok", f"installed: {present}; for the others: {command}")


def satisfied(package: str, extra: str) -> bool:
    """Whether all that an extra asks for is there, extras of extras included."""
    for requirement in importlib.metadata.requires(package) or []:
        wanted, _, marker = requirement.partition(";")
        if not re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", marker):
            continue
        name, extras = re.match(r"\s*([\w.-]+)\s*(?:\[([^\]]*)\])?", wanted).groups()  # type: ignore[union-attr]
        if not applies(marker):
            continue
        if not installed(name) or not all(satisfied(name, e) for e in (extras or "").split(",")):
            return False
    return True


def applies(marker: str) -> bool:
    """Whether a requirement is for this Python."""
    for sign, version in re.findall(r"python_version\s*(<|>=)\s*['\"]([\d.]+)['\"]", marker):
        older = sys.version_info[:2] < tuple(int(part) for part in version.split("."))
        if older != (sign == "<"):
            return False
    return True


def installed(name: str) -> bool:
    if name in ("pygame", "pygame-ce"):  # either gives the module
        return importlib.util.find_spec("pygame") is not None
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def size(count: int) -> str:
    return gigabytes(count) if count >= 1e9 else f"{count / 1e6:.0f} MB"


def as_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """For machines."""
    cards = range(torch.cuda.device_count())
    return {
        "checks": [vars(check) for check in diagnosis.checks],
        "machine": software.describe_machine()
        | {
            "versions": software.versions(),
            "usable_cores": usable_cores(),
            "memory_free_bytes": available_bytes(),
            "gpus": [torch.cuda.get_device_name(card) for card in cards],
        },
    }

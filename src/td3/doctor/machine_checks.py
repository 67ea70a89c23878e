"""Checks of the machine: versions, processor, memory, disk, GPU, rendering, extras."""

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from td3.config import EnvironmentConfig, load_recipe
from td3.doctor.check import Check, check_from_error
from td3.environments.simulators import prepare_rendering
from td3.environments.task import Task
from td3.errors import UserError, first_line
from td3.layout import has_images
from td3.machine import usable_cores
from td3.run import versions as software
from td3.run.memory import (
    available_bytes,
    check_memory,
    disk_bytes,
    example_task,
    replay_bytes,
)
from td3.text import count, data_size

DEVELOPMENT = {"test", "dev", "docs", "peers"}  # extras that users do not need
HALF_CHEETAH = example_task(17, 6)  # sizes to assume without a task
PENDULUM = EnvironmentConfig("Pendulum-v1")
RENDER_SECONDS = 120

# Rendering is tried in a child process, because a graphics driver may crash.
RENDER = """
import json, sys
from td3.config import EnvironmentConfig
from td3.environments.simulators import make
env = make(EnvironmentConfig(sys.argv[1], json.loads(sys.argv[2])), render_mode="rgb_array")
env.reset(seed=0)
height, width = env.render().shape[:2]
print(f"\\n{width} × {height} pixels")
"""


def check_machine(
    task: Task | None = None, rendered: EnvironmentConfig | None = PENDULUM
) -> list[Check]:
    """All checks of the machine, with memory for this task and rendering of this environment."""
    found = software.versions().items()
    versions = ", ".join(f"{name} {version}" for name, version in found if name != "commit")
    processor = f"{software.processor()} ({torch.backends.cpu.get_cpu_capability()})"
    load = f"{count(usable_cores(), 'usable core')}, load {os.getloadavg()[0]:.1f}"
    return [
        Check("versions", "ok", versions),
        Check("processor", "ok", f"{processor}, {load}"),
        *check_storage(Path("runs") if Path("runs").is_dir() else Path(), task or HALF_CHEETAH),
        check_gpu(),
        check_rendering(rendered),
        check_extras(),
    ]


def check_storage(folder: Path, task: Task) -> list[Check]:
    """Memory and disk for the replay buffer of the usual recipe; checkpoints contain it."""
    config = load_recipe("pixels" if has_images(task.layout) else "paper")
    place, free = "cpu", available_bytes()
    try:
        place = check_memory(config, task)
        buffer = f"a replay buffer of {config.loop.replay_size:,} transitions takes"
        size = data_size(replay_bytes(config, task))
        message = f"{buffer} {size} per seed{', on disk' * (place == 'disk')}"
        memory = Check("memory", "ok", f"{data_size(free)} free; {message}" if free else message)
    except UserError as error:
        memory = check_from_error("memory", error)
    if not os.access(folder, os.W_OK):
        advice = "Change to a folder of your own, or choose one with --run."
        return [memory, Check("disk", "error", f"{folder.resolve()} is not writable", advice)]
    needed, room = disk_bytes(config, task, place), shutil.disk_usage(folder).free
    message = f"{data_size(room)} free; a run takes up to {data_size(needed)} per seed"
    if room >= needed:
        return [memory, Check("disk", "ok", message)]
    advice = "Free some space, choose another disk with --run, or lower --loop.replay-size."
    return [memory, Check("disk", "warning", message, advice)]


def check_gpu() -> Check:
    if torch.cuda.is_available():
        devices = range(torch.cuda.device_count())
        cards = [torch.cuda.get_device_properties(device) for device in devices]
        names = ", ".join(f"{card.name} with {data_size(card.total_memory)}" for card in cards)
        try:
            torch.ones(8, 8, device="cuda").matmul(torch.ones(8, 8, device="cuda")).cpu()
        except RuntimeError as error:
            advice = "Install a torch built for this card, or use --device cpu."
            return Check("GPU", "error", f"{names}, but it fails: {first_line(error)}", advice)
        return Check("GPU", "ok", names)
    if shutil.which("nvidia-smi") and torch.version.cuda is None:
        message = f"present, but torch {torch.__version__} is built without CUDA"
        return Check("GPU", "warning", message, "Install a CUDA build of torch (pytorch.org).")
    return Check("GPU", "ok", "none; runs use the CPU")


def check_rendering(config: EnvironmentConfig | None) -> Check:
    """Render one image in a child process, like `td3 video`."""
    if config is None:
        return Check("rendering", "ok", "not tried; the environment has no rgb_array mode")
    prepare_rendering()
    command = [sys.executable, "-c", RENDER, config.id, json.dumps(config.kwargs)]
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, timeout=RENDER_SECONDS, check=False
        )
        code, errors = child.returncode, child.stderr.strip().splitlines()
        problem = errors[-1] if code > 0 and errors else f"the simulator crashed ({code})"
    except subprocess.TimeoutExpired:
        code, problem = 1, f"no image within {RENDER_SECONDS} seconds"
    if code == 0:
        return Check("rendering", "ok", f"{config.id}: {child.stdout.splitlines()[-1]}")
    if "is registered" in problem or "exists only in" in problem:
        return Check("rendering", "ok", "not tried; the environment exists only in this process")
    problem, _, install = problem.removeprefix("td3.errors.UserError: ").partition(": pip install ")
    if install:
        advice, install = "Training works without it; videos need:", f"pip install {install}"
    else:
        advice = (
            "Training works without rendering. For videos install td3[video]; MuJoCo also needs "
            "EGL (libegl1) or OSMesa (libosmesa6 and MUJOCO_GL=osmesa)."
        )
    return Check("rendering", "warning", f"{config.id}: {problem}", advice, install)


def check_extras() -> Check:
    try:
        names = importlib.metadata.metadata("td3").get_all("Provides-Extra") or []
        names = [name for name in names if name not in DEVELOPMENT]
        absent = [name for name in names if not has_extra("td3", name)]
    except ImportError:  # td3 or packaging is not installed
        return Check("extras", "ok", "unknown")
    present = ", ".join(name for name in names if name not in absent) or "none"
    if not absent:
        return Check("extras", "ok", f"all installed: {present}")
    advice = f"Not installed: {', '.join(absent)}. Install one, e.g.:"
    example = "mujoco" if "mujoco" in absent else absent[0]
    command = f"pip install 'td3[{example}]'"
    return Check("extras", "ok", f"installed: {present}", advice, command)


def has_extra(package: str, extra: str) -> bool:
    """Whether all requirements of an extra are installed, including extras of extras."""
    from packaging.requirements import Requirement  # not a dependency of td3's core

    wanted = [Requirement(line) for line in importlib.metadata.requires(package) or []]
    return all(
        is_installed(own.name) and all(has_extra(own.name, inner) for inner in own.extras)
        for own in wanted
        if own.marker and own.marker.evaluate({"extra": extra})
    )


def is_installed(name: str) -> bool:
    if name in ("pygame", "pygame-ce"):  # both provide the module
        return importlib.util.find_spec("pygame") is not None
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def machine_facts() -> dict[str, Any]:
    """The machine as plain values, for JSON."""
    return software.describe_machine() | {
        "versions": software.versions(),
        "usable_cores": usable_cores(),
        "memory_free_bytes": available_bytes(),
        "gpus": [torch.cuda.get_device_name(card) for card in range(torch.cuda.device_count())],
    }

"""Check before training that networks, replay buffers and checkpoints fit into memory and disk."""

import itertools
import shutil
from pathlib import Path

import numpy as np

from td3.algorithm.images.frame_storage import (
    observation_bytes,
    observation_capacity,
    observation_widths,
    overwrite_margin,
)
from td3.algorithm.replay import row_width
from td3.config import Config
from td3.environments.bounds import ActionBounds
from td3.environments.task import Task
from td3.errors import UserError
from td3.layout import Layout, channels_first, has_images, layout_size, parts_of, unstack_layout
from td3.text import count, data_size

IMAGES_FILE = "replay.images"  # images of a replay buffer that does not fit into memory
PROCESS_BYTES = 50_000_000  # of a worker without its environments
SHARE = 0.9  # of the free memory; the rest is for simulators and networks


def example_task(state_dim: int, action_dim: int, layout: Layout | None = None) -> Task:
    """A task of these sizes, for callers without an environment."""
    ones = np.ones(action_dim)
    bounds = ActionBounds(-ones, ones, (action_dim,), "float32")
    return Task("example", bounds, layout or {"box": [state_dim]})


def stores_observations(config: Config, task: Task) -> bool:
    """Whether the replay buffer stores observations: for images, stacks and n-step returns."""
    return has_images(task.layout) or "stack" in task.layout or config.agent.n_step > 1


def replay_bytes(config: Config, task: Task) -> int:
    """Size of all agents' replay buffers."""
    size = config.loop.replay_size
    if not stores_observations(config, task):
        return 4 * row_width(task.state_dim, task.action_dim) * size * config.agents
    observations = observation_capacity(
        size, overwrite_margin(task.layout, config.environment.count)
    )
    transitions = size * (4 * (task.action_dim + 2) + 16)
    return config.agents * (observations * observation_bytes(task.layout) + transitions)


def image_bytes(config: Config, task: Task) -> int:
    """Size of the images in the replay buffers. Only these may be kept on disk."""
    if not has_images(task.layout):
        return 0
    margin = overwrite_margin(task.layout, config.environment.count)
    width = observation_widths(parts_of(unstack_layout(task.layout)[1]))[0]
    return config.agents * observation_capacity(config.loop.replay_size, margin) * width


def available_bytes() -> int | None:
    """Free memory without swapping, of the machine or of the container if that has less."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="utf-8")
        if limit.isdigit():
            found.append(int(limit) - int(used))
    except (OSError, ValueError):
        pass
    return min(found) if found else None


def check_environments(config: Config, each: int) -> None:
    """Refuse more environments than fit into memory; one needs `each` bytes."""
    own, free = config.environment, available_bytes()
    total = config.agents * own.count
    processes = total if own.vectorization == "async" else min(own.workers, total)
    needed = total * each + processes * PROCESS_BYTES
    if free is not None and needed > free:
        where = f" in {count(processes, 'worker')}" if processes else ""
        raise UserError(
            f"{count(total, 'environment')}{where} need about {data_size(needed)} but only "
            f"{data_size(free)} of memory are free; use fewer agents, environments or workers."
        )


def network_bytes(config: Config, task: Task) -> int:
    """Estimate of the memory for networks, targets, moments and one batch in progress."""
    own, activations, weights, inputs = config.agent, 0, 0, task.state_dim
    if has_images(task.layout):
        stack, single = unstack_layout(task.layout)
        images = [part for part in parts_of(single) if part.image]
        activations = 2 * task.state_dim  # state and next state
        for part in images:
            _, height, width = channels_first(part.image or ())
            area = height * width // 4  # of each channel, after a stride of 2
            activations += 3 * sum(own.channels) * area
            weights += own.channels[-1] * area * own.features
            weights += sum(9 * m * n for m, n in itertools.pairwise(own.channels))
        numbers = layout_size(single) - sum(part.size for part in images)
        inputs = len(images) * own.features + stack * numbers
    widths = [inputs + task.action_dim, *own.hidden_sizes, task.action_dim]
    weights += sum(m * n for m, n in itertools.pairwise(widths))
    # Three networks, each with target, gradient and two moments; a few passes over a batch.
    return 4 * config.agents * (3 * 5 * weights + own.batch_size * (10 * sum(widths) + activations))


def check_memory(config: Config, task: Task) -> str:
    """Choose where to keep the replay buffers: the agents' device, "cpu", or "disk" for images.

    Raises UserError if networks or replay buffers do not fit.
    """
    free = available_bytes()
    on_gpu = config.device.startswith("cuda")
    room = device_bytes(config.device) if on_gpu else free
    networks = network_bytes(config, task)
    if room is not None and networks > room:
        raise UserError(
            f"Networks and batches need about {data_size(networks)} but only {data_size(room)} of "
            f"{'GPU ' if on_gpu else ''}memory are free; use smaller agent.hidden_sizes, "
            "agent.batch_size, images or networks for them, or fewer agents."
        )
    needed = replay_bytes(config, task)
    if on_gpu and room is not None and needed <= SHARE * room:
        return config.device
    if free is None or needed <= SHARE * free:
        return "cpu"
    images = image_bytes(config, task)
    if images and needed - images <= SHARE * free:
        return "disk"
    fitting = int(SHARE * free / needed * config.loop.replay_size)
    smaller = f"--loop.replay-size {fitting} or " if fitting else ""
    raise UserError(
        f"The replay buffer needs {data_size(needed)} ({config.agents} × "
        f"{config.loop.replay_size:,} transitions) but only {data_size(free)} of memory "
        f"are free; use {smaller}fewer agents."
    )


def disk_bytes(config: Config, task: Task, place: str) -> int:
    """The largest size of a run on disk: saved transitions, and images if `place` is "disk".

    Each checkpoint saves the new transitions in one file. Three more files than the replay buffer
    needs may exist: the oldest, the one of the checkpoint before, and the one being written.
    """
    size, loop = config.loop.replay_size, config.loop
    saved = min(loop.steps, size + 3 * config.checkpoint.every)
    if config.checkpoint.keep_every:  # up to all transitions
        saved = loop.steps
    row = replay_bytes(config, task) / size
    return int(saved * row) + (image_bytes(config, task) if place == "disk" else 0)


def check_disk(config: Config, task: Task, place: str, folder: Path) -> None:
    """Refuse a run that will not fit on its disk."""
    needed = disk_bytes(config, task, place)
    existing = [*folder.glob("replay/*"), *folder.glob(IMAGES_FILE)]
    free = shutil.disk_usage(folder).free + sum(map(size_of, existing))
    if needed > free:
        what = "Checkpoints, which contain the replay buffer, will need"
        if place == "disk":
            what = "The replay buffer and its copy in checkpoints need"
        fewer = ", use a smaller --loop.replay-size or fewer agents" if not existing else ""
        raise UserError(
            f"{what} {data_size(needed)}, but the disk of {folder} has room for "
            f"{data_size(free)}; make room{fewer}, or use another disk."
        )


def size_of(file: Path) -> int:
    """0 if it is gone: the run may be in use, and its process removes old files."""
    try:
        return file.lstat().st_size
    except FileNotFoundError:
        return 0


def device_bytes(device: str) -> int:
    """Free memory of a GPU."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0])


def describe_replay(config: Config, task: Task, place: str) -> str:
    """Size and place of the replay buffers, in words."""
    size = data_size(replay_bytes(config, task))
    buffers = f"{config.agents} × {config.loop.replay_size:,} transitions, {size}"
    if place == "disk":
        free = data_size(available_bytes() or 0)
        return f"{buffers}, on disk, which is slower: {free} of memory are free"
    if config.device.startswith("cuda") and place == "cpu":
        free = data_size(device_bytes(config.device))
        return f"{buffers}, in host memory, which is slower: the GPU has {free} free"
    return f"{buffers} of {'GPU' if place.startswith('cuda') else 'main'} memory"

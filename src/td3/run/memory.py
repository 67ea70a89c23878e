"""Whether the replay rings fit, said before training starts."""

import itertools
import shutil
from pathlib import Path

from td3.algorithm.images.frame_storage import (
    observation_bytes,
    observation_capacity,
    observation_widths,
    overwrite_margin,
)
from td3.algorithm.replay import row_width
from td3.config import Config
from td3.errors import UserError
from td3.layout import Layout, channels_first, has_images, layout_size, parts_of, unstack_layout

IMAGES_FILE = "replay.images"  # a ring that does not fit into memory
SHARE = 0.9  # of what is free; the rest is for the simulators and the networks


def by_observation(config: Config, layout: Layout | None) -> bool:
    """Whether the ring stores observations, not transitions: images, stacks, n-step returns."""
    if layout is None:
        return False
    return has_images(layout) or "stack" in layout or config.agent.n_step > 1


def ring_bytes(
    config: Config, state_dim: int, action_dim: int, layout: Layout | None = None
) -> int:
    """Size of all agents' rings."""
    size = config.loop.replay_size
    if layout is None or not by_observation(config, layout):
        return 4 * row_width(state_dim, action_dim) * size * config.agents
    room = observation_capacity(size, overwrite_margin(layout, config.environment.count))
    transitions = size * (4 * (action_dim + 2) + 16)
    return config.agents * (room * observation_bytes(layout) + transitions)


def image_bytes(config: Config, layout: Layout | None) -> int:
    """What of the rings may lie on disk."""
    if layout is None or not has_images(layout):
        return 0
    margin = overwrite_margin(layout, config.environment.count)
    room = observation_capacity(config.loop.replay_size, margin)
    return config.agents * room * observation_widths(parts_of(unstack_layout(layout)[1]))[0]


def available_bytes() -> int | None:
    """Memory that can be had without swapping: the machine's, or the container's if less."""
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


def network_bytes(
    config: Config, state_dim: int, action_dim: int, layout: Layout | None = None
) -> int:
    """About what networks, their targets and moments, and a batch on its way through them take."""
    own, activations, weights = config.agent, 0, 0
    if layout and has_images(layout):
        stack, single = unstack_layout(layout)
        images = [part for part in parts_of(single) if part.image]
        activations = 2 * state_dim  # state and next state
        for part in images:
            _, height, width = channels_first(part.image or ())
            area = height * width // 4  # of each channel, after a stride of 2
            activations += 3 * sum(own.channels) * area
            weights += own.channels[-1] * area * own.features
            weights += sum(9 * m * n for m, n in itertools.pairwise(own.channels))
        numbers = layout_size(single) - sum(part.size for part in images)
        state_dim = len(images) * own.features + stack * numbers
    widths = [state_dim + action_dim, *own.hidden_sizes, action_dim]
    weights += sum(m * n for m, n in itertools.pairwise(widths))
    # Three networks, each with target, gradient and two moments; a few passes over a batch.
    return 4 * config.agents * (3 * 5 * weights + own.batch_size * (10 * sum(widths) + activations))


def check_memory(
    config: Config, state_dim: int, action_dim: int, layout: Layout | None = None
) -> str:
    """Where the rings are held: the agents' own device, else cpu, else, if images, disk."""
    free = available_bytes()
    on_gpu = config.device.startswith("cuda")
    room = device_bytes(config.device) if on_gpu else free
    networks = network_bytes(config, state_dim, action_dim, layout)
    if room is not None and networks > room:
        raise UserError(
            f"Networks and batches need about {gigabytes(networks)} but only {gigabytes(room)} of "
            f"{'GPU ' if on_gpu else ''}memory are free; use smaller agent.hidden_sizes, "
            "agent.batch_size, images or networks for them, or fewer agents."
        )
    needed = ring_bytes(config, state_dim, action_dim, layout)
    if on_gpu and room is not None and needed <= SHARE * room:
        return config.device
    if free is None or needed <= SHARE * free:
        return "cpu"
    images = image_bytes(config, layout)
    if images and needed - images <= SHARE * free:
        return "disk"
    fitting = int(SHARE * free / needed * config.loop.replay_size)
    smaller = f"--loop.replay-size {fitting} or " if fitting else ""
    raise UserError(
        f"The replay ring needs {gigabytes(needed)} ({config.agents} × "
        f"{config.loop.replay_size:,} transitions) but only {gigabytes(free)} of memory "
        f"are free; use {smaller}fewer agents."
    )


def disk_bytes(
    config: Config, state_dim: int, action_dim: int, layout: Layout | None, place: str
) -> int:
    """What a run takes on disk in the end: its saved ring, and the ring itself if it lies there.

    A ring is saved in pieces, one for each checkpoint. Some are there that hold little of it: the
    oldest, that of the checkpoint before, and the newest while it is written.
    """
    size, loop = config.loop.replay_size, config.loop
    saved = min(loop.steps, size + 3 * config.checkpoint.every)
    row = ring_bytes(config, state_dim, action_dim, layout) / size
    return int(saved * row) + (image_bytes(config, layout) if place == "disk" else 0)


def check_disk(
    config: Config, state_dim: int, action_dim: int, layout: Layout | None, folder: Path
) -> None:
    """Refuse a run that will not fit on its disk."""
    place = check_memory(config, state_dim, action_dim, layout)
    needed = disk_bytes(config, state_dim, action_dim, layout, place)
    there = [*folder.glob("replay/*"), *folder.glob(IMAGES_FILE)]
    free = shutil.disk_usage(folder).free + sum(file.lstat().st_size for file in there)
    if needed > free:
        ring = "The replay ring and its copy in checkpoints need"
        what = ring if place == "disk" else "Checkpoints, which keep the replay ring, will need"
        fewer = ", use a smaller --loop.replay-size or fewer agents" if not there else ""
        raise UserError(
            f"{what} {gigabytes(needed)}, but the disk of {folder} has room for "
            f"{gigabytes(free)}; make room{fewer}, or take another disk."
        )


def device_bytes(device: str) -> int:
    """Free memory of a GPU."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0])


def in_words(
    config: Config, state_dim: int, action_dim: int, place: str, layout: Layout | None = None
) -> str:
    """How much memory the rings take, and where."""
    size = gigabytes(ring_bytes(config, state_dim, action_dim, layout))
    rings = f"{config.agents} × {config.loop.replay_size:,} transitions, {size}"
    if place == "disk":
        free = gigabytes(available_bytes() or 0)
        return f"{rings}, on disk, which is slower: {free} of memory are free"
    if config.device.startswith("cuda") and place == "cpu":
        free = gigabytes(device_bytes(config.device))
        return f"{rings}, in host memory, which is slower: the GPU has {free} free"
    return f"{rings} of {'GPU' if place.startswith('cuda') else 'main'} memory"


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"

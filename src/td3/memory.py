"""Whether the replay rings fit, said before training starts."""

import itertools
from pathlib import Path

from td3.config import Config
from td3.errors import UserError
from td3.replay import row_width

SHARE = 0.9  # of what is free; the rest is for the simulators and the networks


def ring_bytes(config: Config, state_dim: int, action_dim: int) -> int:
    """Size of all agents' rings."""
    return 4 * row_width(state_dim, action_dim) * config.loop.replay_size * config.agents


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


def network_bytes(config: Config, state_dim: int, action_dim: int) -> int:
    """About what networks, their targets and moments, and a batch on its way through them take."""
    widths = [state_dim + action_dim, *config.agent.hidden_sizes, action_dim]
    weights = sum(m * n for m, n in itertools.pairwise(widths))
    # Three networks, each with target, gradient and two moments; a few passes over a batch.
    return 4 * config.agents * (3 * 5 * weights + 10 * config.agent.batch_size * sum(widths))


def check_memory(config: Config, state_dim: int, action_dim: int) -> str:
    """The device whose memory holds the rings: the agents' own, else the host; or a refusal."""
    free = available_bytes()
    networks = network_bytes(config, state_dim, action_dim)
    if config.device == "cpu" and free is not None and networks > free:
        raise UserError(
            f"Networks and batches need about {gigabytes(networks)} but only {gigabytes(free)} of "
            "memory are free; use smaller agent.hidden_sizes, agent.batch_size or fewer agents."
        )
    needed = ring_bytes(config, state_dim, action_dim)
    if config.device.startswith("cuda") and needed <= SHARE * device_bytes(config.device):
        return config.device
    if free is not None and needed > SHARE * free:
        fitting = int(SHARE * free / needed * config.loop.replay_size)
        smaller = f"--loop.replay-size {fitting} or " if fitting else ""
        raise UserError(
            f"The replay ring needs {gigabytes(needed)} ({config.agents} × "
            f"{config.loop.replay_size:,} transitions) but only {gigabytes(free)} of memory "
            f"are free; use {smaller}fewer agents."
        )
    return "cpu"


def device_bytes(device: str) -> int:
    """Free memory of a GPU."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0])


def in_words(config: Config, state_dim: int, action_dim: int, place: str) -> str:
    """How much memory the rings take, and where."""
    size = gigabytes(ring_bytes(config, state_dim, action_dim))
    rings = f"{config.agents} × {config.loop.replay_size:,} transitions, {size}"
    if config.device.startswith("cuda") and place == "cpu":
        free = gigabytes(device_bytes(config.device))
        return f"{rings}, in host memory, which is slower: the GPU has {free} free"
    return f"{rings} of {'GPU' if place.startswith('cuda') else 'main'} memory"


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"

"""Whether the replay rings fit, said before training starts."""

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


def check_memory(config: Config, state_dim: int, action_dim: int) -> None:
    """Refuse a ring that is larger than the memory."""
    needed, free = ring_bytes(config, state_dim, action_dim), available_bytes()
    where = "memory"
    if config.device.startswith("cuda"):
        import torch

        free, where = torch.cuda.mem_get_info(config.device)[0], "GPU memory"
    if free is not None and needed > SHARE * free:
        fitting = int(SHARE * free / needed * config.loop.replay_size)
        raise UserError(
            f"The replay ring needs {gigabytes(needed)} ({config.agents} × "
            f"{config.loop.replay_size:,} transitions) but only {gigabytes(free)} of {where} "
            f"are free; use --loop.replay-size {fitting} or fewer agents."
        )


def gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"

"""How many CPU threads make an update fastest: measured, for it depends on sizes and machine."""

import time

import torch

from td3.accelerate import accelerate
from td3.agent import TD3
from td3.cores import usable_cores
from td3.matrix_products import update_products
from td3.replay import Batch

WORTH_SHARING = 30e6  # floating-point operations in an update; below, threads wait for each other
GAIN = 1.2  # how much faster more threads must be to be taken, so that chance does not choose
SECONDS = 0.1  # for each count


def fastest_threads(
    state_dim: int, action_dim: int, hidden_sizes: tuple[int, ...], batch_size: int, agents: int
) -> int:
    """1, 2, 4, … or all usable cores: as many as still make an update clearly faster."""
    products = update_products(state_dim, action_dim, hidden_sizes, batch_size, agents)
    cores = usable_cores()
    if cores == 1 or products.flop_per_update(policy_freq=2) < WORTH_SHARING:
        return 1
    agent = accelerate(TD3(state_dim, action_dim, hidden_sizes=hidden_sizes, seed=range(agents)))
    widths = (state_dim, state_dim, action_dim, 1, 1)
    batch = Batch(*(torch.zeros(agents, batch_size, width) for width in widths))
    noise = torch.zeros(agents, batch_size, action_dim)
    before = torch.get_num_threads()
    try:
        chosen, fastest = 1, seconds_per_update(agent, batch, noise, threads=1)
        for threads in counts_up_to(cores):
            taken = seconds_per_update(agent, batch, noise, threads)
            if taken * GAIN > fastest:
                break
            chosen, fastest = threads, taken
    finally:
        torch.set_num_threads(before)
    return chosen


def seconds_per_update(agent: TD3, batch: Batch, noise: torch.Tensor, threads: int) -> float:
    """The least that a pair of updates, one of them delayed, took; what disturbs takes longer."""
    torch.set_num_threads(threads)
    fastest, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end or fastest == float("inf"):
        start = time.perf_counter()
        agent.update(batch, noise)
        agent.update(batch, noise)
        fastest = min(fastest, (time.perf_counter() - start) / 2)
    return fastest


def counts_up_to(cores: int) -> list[int]:
    """2, 4, 8, … and the number of cores itself."""
    powers = [1 << bit for bit in range(1, cores.bit_length()) if 1 << bit < cores]
    return [*powers, cores] if cores > 1 else []

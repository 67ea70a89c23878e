"""How many CPU threads make an update fastest: measured, for it depends on sizes and machine."""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from td3.algorithm.agent import TD3
from td3.algorithm.images.encoder import Encoder
from td3.algorithm.replay import ReplayBuffer
from td3.execution.cpu.learner import CpuUpdates
from td3.execution.products import update_products
from td3.layout import Layout, layout_size
from td3.machine import usable_cores
from td3.training.metrics import Interval

WORTH_SHARING = 30e6  # floating-point operations in an update; below, threads wait for each other
GAIN = 1.2  # how much faster more threads must be to be taken, so that chance does not choose
SECONDS = 0.1  # at least, for each count
IMAGES = 128  # of all agents together: enough to tell, and soon done


def fastest_threads(
    state_dim: int, action_dim: int, hidden_sizes: tuple[int, ...], batch_size: int, agents: int
) -> int:
    """As many as still make an update clearly faster."""
    products = update_products(state_dim, action_dim, hidden_sizes, batch_size, agents)
    if usable_cores() == 1 or products.flop_per_update(policy_freq=2) < WORTH_SHARING:
        return 1
    updating = make_example(state_dim, action_dim, hidden_sizes, batch_size, agents)
    return fastest(partial(updating, 2))  # one of them delayed


def fastest_threads_for_images(
    layout: Layout, channels: tuple[int, ...], features: int, batch_size: int, agents: int
) -> int:
    """As many as still make the encoder, which takes most of the time, clearly faster."""
    if usable_cores() == 1:
        return 1
    encoder = Encoder(layout, channels, features, agents=agents)
    batch = max(1, min(batch_size, IMAGES // agents))
    states = torch.zeros(agents, batch, layout_size(layout))
    return fastest(lambda: encoder(states).sum().backward())


def fastest(work: Callable[[], None]) -> int:
    """1, 2, 4, … or all usable cores, as long as more are clearly faster."""
    before = torch.get_num_threads()
    try:
        chosen, least = 1, seconds_of(work, threads=1)
        for threads in counts_up_to(usable_cores()):
            taken = seconds_of(work, threads)
            if taken * GAIN > least:
                break
            chosen, least = threads, taken
    finally:
        torch.set_num_threads(before)
    return chosen


def make_example(
    state_dim: int, action_dim: int, hidden_sizes: tuple[int, ...], batch_size: int, agents: int
) -> CpuUpdates:
    """Updates of these sizes, on a ring of zeros."""
    agent = TD3(state_dim, action_dim, hidden_sizes=hidden_sizes, seed=range(agents))
    ring = ReplayBuffer(batch_size, seed=range(agents))
    ring.allocate(state_dim, action_dim)
    ring.added[:] = batch_size
    numbers = {
        "batch_size": batch_size,
        "policy_freq": 2,
        "discount": 0.99,
        "tau": 0.005,
        "policy_noise": 0.2,
        "noise_clip": 0.5,
    }
    return CpuUpdates(agent, ring, Interval(agents, agent.device), numbers)


def seconds_of(work: Callable[[], None], threads: int) -> float:
    """The median over several times.

    Not the least: where others use the cores too, threads wait for each other, and that counts.
    """
    torch.set_num_threads(threads)
    work()
    taken: list[float] = []
    end = time.perf_counter() + SECONDS
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def counts_up_to(cores: int) -> list[int]:
    """2, 4, 8, … and the number of cores itself."""
    powers = [1 << bit for bit in range(1, cores.bit_length()) if 1 << bit < cores]
    return [*powers, cores] if cores > 1 else []

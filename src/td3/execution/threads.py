"""Measure how many CPU threads make an update fastest; it depends on sizes and machine."""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from td3.algorithm.agent import TD3
from td3.algorithm.images.encoder import Encoder
from td3.algorithm.replay import ReplayBuffer
from td3.execution.context import UpdateContext
from td3.execution.cpu.learner import CpuUpdates
from td3.execution.flop import update_flop
from td3.execution.trace import Settings
from td3.layout import Layout, layout_size
from td3.machine import usable_cores
from td3.training.metrics import Interval

WORTH_SHARING = 30e6  # floating-point operations per update; below, one thread is fastest
GAIN = 1.2  # speed-up that more threads must reach, so that noise does not decide
SECONDS = 0.1  # minimum time to measure one thread count
IMAGES = 128  # of all agents together: enough to compare, and fast


def fastest_threads(
    state_dim: int, action_dim: int, hidden_sizes: tuple[int, ...], batch_size: int, agents: int
) -> int:
    """The largest number of threads that still makes an update clearly faster."""
    flop = update_flop(state_dim, action_dim, hidden_sizes, batch_size, agents)
    if usable_cores() == 1 or flop < WORTH_SHARING:
        return 1
    updating = make_example(state_dim, action_dim, hidden_sizes, batch_size, agents)
    return fastest(partial(updating, 2))  # one of the two has the delayed steps


def fastest_threads_for_images(
    layout: Layout, channels: tuple[int, ...], features: int, batch_size: int, agents: int
) -> int:
    """The same for the encoder of images, which takes most of the time of an update."""
    if usable_cores() == 1:
        return 1
    encoder = Encoder(layout, channels, features, agents=agents)
    batch = max(1, min(batch_size, IMAGES // agents))
    states = torch.zeros(agents, batch, layout_size(layout))
    return fastest(lambda: encoder(states).sum().backward())


def fastest(work: Callable[[], None]) -> int:
    """Try 1, 2, 4, … up to all usable cores; stop when more are not clearly faster."""
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
    """Updates of these sizes, on a replay buffer of zeros."""
    agent = TD3(state_dim, action_dim, hidden_sizes=hidden_sizes, seed=range(agents))
    ring = ReplayBuffer(batch_size, seed=range(agents))
    ring.allocate(state_dim, action_dim)
    ring.added[:] = batch_size
    settings: Settings = {"discount": 0.99, "tau": 0.005, "policy_noise": 0.2, "noise_clip": 0.5}
    interval = Interval(agents, agent.device)
    return CpuUpdates(UpdateContext(agent, ring, interval, batch_size, 2, settings))


def seconds_of(work: Callable[[], None], threads: int) -> float:
    """Median time of one call.

    Not the minimum: if other processes use the cores, threads wait for each other, and that counts.
    """
    torch.set_num_threads(threads)
    work()
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def counts_up_to(cores: int) -> list[int]:
    """2, 4, 8, … and the number of cores itself."""
    powers = [1 << bit for bit in range(1, cores.bit_length()) if 1 << bit < cores]
    return [*powers, cores] if cores > 1 else []

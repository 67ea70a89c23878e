"""How fast agents learn from images: the update, and how much of it is sampling."""

import dataclasses
from collections.abc import Callable

import torch

from td3.algorithm.agent import TD3
from td3.algorithm.images.frame_replay import FrameReplay
from td3.bench.measure import (
    Benchmark,
    Figure,
    Rounds,
    Tick,
    describe,
    prepare,
    repeats_for,
    take_note,
    time_of,
)
from td3.config import Config, EnvironmentConfig
from td3.config.checks import check
from td3.errors import UserError
from td3.execution import make_learner
from td3.layout import Layout, layout_size, stacked, unstacked
from td3.run.memory import check_memory, example_task, replay_bytes
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population

CHANNELS, SIDE = 3, 84  # where the recipe names no size
EPISODE = 500  # steps


def bench_images(
    config: Config, action_dim: int, rounds: Rounds, tick: Tick = lambda: None
) -> Benchmark:
    """Updates on a full ring of made-up images, in turn with sampling alone."""
    if action_dim < 1:
        raise UserError("action-dim must be 1 or more.")
    circumstances = take_note()
    device = prepare(config)
    layout = layout_of(config.environment)
    named = dataclasses.replace(config.environment, id="random images")
    config = check(dataclasses.replace(config, device=str(device), environment=named))
    sizes = (layout_size(layout), action_dim)
    task = example_task(*sizes, layout)
    place = check_memory(config, task)
    if place == "disk":
        raise UserError("The ring of images does not fit into memory; use a smaller recipe.")
    population = Population(config, device)
    agent = TD3(
        *sizes,
        hidden_sizes=config.agent.hidden_sizes,
        seed=config.agent_seeds,
        layout=layout,
        channels=config.agent.channels,
        features=config.agent.features,
        device=device,
        actor_learning_rate=config.agent.actor_learning_rate,
        critic_learning_rate=config.agent.critic_learning_rate,
    )
    ring = FrameReplay(
        config.loop.replay_size,
        layout,
        n_step=config.agent.n_step,
        discount=config.agent.discount,
        random_shift=config.agent.random_shift,
        seed=config.agent_seeds,
        device=place,
    )
    fill(ring, *sizes)
    learner = make_learner(
        agent,
        ring,
        Interval(config.agents, device),
        population,
        config.execution,
        config.precision,
    )

    works = (sampler(learner, ring, config.agent.batch_size), learner.learn)
    repeats = [repeats_for(work, config.agent.policy_freq, rounds, device) for work in works]
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds.count):
        for work, times, taken in zip(works, repeats, seconds, strict=True):
            taken.append(time_of(work, times, device) / times)
        tick()
    learner.close()
    sampling, update = seconds
    frames = config.environment.action_repeat / config.loop.updates_per_step
    figures = {
        "updates_per_second": Figure("1/s", [1 / s for s in update]),
        "agent_updates_per_second": Figure("1/s", [config.agents / s for s in update]),
        "frames_per_second_at_most": Figure("1/s", [frames / s for s in update]),
        "milliseconds_per_update": Figure("ms", [1e3 * s for s in update]),
        "milliseconds_per_sample": Figure("ms", [1e3 * s for s in sampling]),
        "sample_over_update": Figure("", [a / b for a, b in zip(sampling, update, strict=True)]),
        "ring_gigabytes": Figure("GB", [replay_bytes(config, task) / 1e9]),
    }
    stack, single = unstacked(layout)
    image = {"image": single["image"], "frame_stack": stack}
    described = (
        describe(config, device, rounds)
        | image
        | {
            "channels": list(config.agent.channels),
            "features": config.agent.features,
            "state_dim": sizes[0],
            "action_dim": action_dim,
        }
    )
    return Benchmark("images", described, figures, circumstances)


def sampler(learner: Learner, ring: FrameReplay, batch: int) -> Callable[[int], None]:
    """Samples so many times, in the way in which the learner does."""
    device = learner.agent.device

    def once() -> None:
        ring.gather(ring.draw(batch), device)

    if device.type == "cuda":
        from td3.execution.gpu.image_learner import CapturedFrames  # a second, which few need

        if isinstance(learner, CapturedFrames):
            once = learner.sampling_alone()

    def sample(times: int) -> None:
        for _ in range(times):
            once()

    return sample


def layout_of(environment: EnvironmentConfig) -> Layout:
    """Images as the recipe asks for them."""
    side = environment.resize or SIDE
    shape = [side, side] if environment.grey else [side, side, CHANNELS]
    return stacked({"image": shape}, environment.frame_stack)


def fill(ring: FrameReplay, state_dim: int, action_dim: int) -> None:
    """Episodes of EPISODE steps with pixels, actions and rewards at random."""
    ring.allocate(state_dim, action_dim)
    assert ring.rows is not None
    count, device = ring.capacity, ring.device
    ring.images.random_(0, 256)
    ring.rows.uniform_(-1, 1)
    ring.rows[..., -1] = 0
    numbers = torch.arange(ring.room, device=device)
    ring.ends[..., 0], ring.ends[..., 1] = numbers[:count], numbers[:count] + 1
    ring.links[..., 0] = torch.where(numbers % EPISODE == 0, numbers, numbers - 1)
    ring.links[..., 1] = torch.where(numbers < count, numbers, -1)
    ring.links[:, EPISODE - 1 :: EPISODE, 1] = -1
    ring.added[:], ring.written[:] = count, count + 1

"""Speed of learning from images: the update, and how much of it is sampling."""

import dataclasses
from collections.abc import Callable

import torch

from td3.algorithm.agent import TD3
from td3.algorithm.images.frame_replay import FrameReplay
from td3.bench import measure
from td3.bench.measure import Benchmark, Figure, Rounds
from td3.config import Config, EnvironmentConfig
from td3.config.checks import check
from td3.errors import UserError
from td3.execution import make_learner
from td3.layout import Layout, layout_size, stack_layout, unstack_layout
from td3.run.memory import check_memory, example_task, replay_bytes
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population

CHANNELS, SIDE = 3, 84  # if the recipe gives no size
EPISODE = 500  # steps


def bench_images(config: Config, action_dim: int, rounds: Rounds) -> Benchmark:
    """Measure updates on a full replay buffer of random images, in turn with sampling alone."""
    if action_dim < 1:
        raise UserError("action-dim must be 1 or more.")
    circumstances = measure.describe_circumstances()
    device = measure.prepare_device(config)
    layout = image_layout(config.environment)
    environment = dataclasses.replace(config.environment, id="random images")
    config = check(dataclasses.replace(config, device=str(device), environment=environment))
    learner, replay = make_image_learner(config, layout, action_dim)
    works = {
        "sampling": make_sampler(learner, replay, config.agent.batch_size),
        "update": learner.learn,
    }
    seconds = measure.measure_in_turn(works, config.agent.policy_freq, rounds, device)
    learner.close()
    stack, single = unstack_layout(layout)
    settings = measure.describe_settings(config, device, rounds) | {
        "image": single["image"],
        "frame_stack": stack,
        "channels": list(config.agent.channels),
        "features": config.agent.features,
        "state_dim": layout_size(layout),
        "action_dim": action_dim,
    }
    task = example_task(layout_size(layout), action_dim, layout)
    gigabytes = replay_bytes(config, task) / 1e9
    figures = image_figures(config, **seconds) | {"ring_gigabytes": Figure("GB", [gigabytes])}
    return Benchmark("images", settings, figures, circumstances)


def image_figures(config: Config, sampling: list[float], update: list[float]) -> dict[str, Figure]:
    frames = config.environment.action_repeat / config.loop.updates_per_step
    return {
        "updates_per_second": Figure("1/s", [1 / s for s in update]),
        "agent_updates_per_second": Figure("1/s", [config.agents / s for s in update]),
        "frames_per_second_at_most": Figure("1/s", [frames / s for s in update]),
        "milliseconds_per_update": Figure("ms", [1e3 * s for s in update]),
        "milliseconds_per_sample": Figure("ms", [1e3 * s for s in sampling]),
        "sample_over_update": Figure("", [a / b for a, b in zip(sampling, update, strict=True)]),
    }


def make_image_learner(
    config: Config, layout: Layout, action_dim: int
) -> tuple[Learner, FrameReplay]:
    sizes, device = (layout_size(layout), action_dim), torch.device(config.device)
    place = check_memory(config, example_task(*sizes, layout))
    if place == "disk":
        raise UserError("The replay buffer does not fit into memory; use a smaller recipe.")
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
    replay = FrameReplay(
        config.loop.replay_size,
        layout,
        n_step=config.agent.n_step,
        discount=config.agent.discount,
        random_shift=config.agent.random_shift,
        seed=config.agent_seeds,
        device=place,
    )
    fill_replay(replay, *sizes)
    interval, population = Interval(config.agents, device), Population(config, device)
    learner = make_learner(agent, replay, interval, population, config.execution, config.precision)
    return learner, replay


def make_sampler(learner: Learner, replay: FrameReplay, batch: int) -> Callable[[int], None]:
    """Return a function that samples as often as asked, in the way of this learner."""
    device = learner.agent.device

    def sample_once() -> None:
        replay.gather(replay.draw(batch), device)

    if device.type == "cuda":
        from td3.execution.gpu.image_learner import GpuImageLearner  # imports Triton

        if isinstance(learner, GpuImageLearner):
            sample_once = learner.sampling_alone()

    def sample(times: int) -> None:
        for _ in range(times):
            sample_once()

    return sample


def image_layout(environment: EnvironmentConfig) -> Layout:
    """Return the layout of the recipe's images."""
    side = environment.resize or SIDE
    shape = [side, side] if environment.grey else [side, side, CHANNELS]
    return stack_layout({"image": shape}, environment.frame_stack)


def fill_replay(replay: FrameReplay, state_dim: int, action_dim: int) -> None:
    """Fill the buffer with episodes of random pixels, actions and rewards."""
    replay.allocate(state_dim, action_dim)
    assert replay.rows is not None
    count, device = replay.capacity, replay.device
    replay.images.random_(0, 256)
    replay.rows.uniform_(-1, 1)
    replay.rows[..., -1] = 0
    numbers = torch.arange(replay.index.observation_capacity, device=device)
    replay.index.ends[..., 0], replay.index.ends[..., 1] = numbers[:count], numbers[:count] + 1
    replay.index.links[..., 0] = torch.where(numbers % EPISODE == 0, numbers, numbers - 1)
    replay.index.links[..., 1] = torch.where(numbers < count, numbers, -1)
    replay.index.links[:, EPISODE - 1 :: EPISODE, 1] = -1
    replay.added[:], replay.index.observed[:] = count, count + 1

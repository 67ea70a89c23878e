"""Build a training from a configuration."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from td3.algorithm.agent import TD3
from td3.algorithm.images.frame_replay import FrameReplay
from td3.algorithm.replay import ReplayBuffer
from td3.algorithm.replay_base import Replay
from td3.config import Config
from td3.config.variants import load_variant
from td3.environments.backend import make_environments
from td3.environments.base import Environments
from td3.environments.environment import Environment
from td3.environments.task import Task
from td3.environments.workers.pool import WorkerPool
from td3.errors import UserError
from td3.execution import compute_on, make_learner
from td3.files import check_file, remove
from td3.run.memory import IMAGES_FILE, check_memory, stores_observations
from td3.seeding import Streams
from td3.training.background_evaluation import make_evaluations
from td3.training.collector import Collector
from td3.training.divergence import freeze
from td3.training.exploration import make_exploration
from td3.training.loop import Training
from td3.training.metrics import Interval, Sink
from td3.training.population import Population
from td3.training.recorder import Recorder


def assemble(
    config: Config,
    folder: Path,
    sinks: Sequence[Sink] = (),
    replay_place: str = "",
    first: Environment | None = None,
    kind: type[Training] = Training,
    population_kind: type[Population] = Population,
) -> Training:
    """Build everything that a training needs; it writes its results into `folder`.

    `replay_place` is the result of `check_memory`, and `first` a new environment, if the caller
    has them already. `kind` and `population_kind`: subclasses to use.
    """
    device = compute_on(config.device, config.threads)
    population = population_kind(config, device)
    streams = [Streams.from_seed(seed) for seed in config.agent_seeds]
    count = config.environment.count
    seeds = [own.env for own in streams for _ in range(count)]
    environments = make_environments(config, seeds, first)
    task = environments.task
    collector = make_collector(environments, population, streams)
    place = replay_place or check_memory(config, task)
    file = folder / IMAGES_FILE
    check_file(file)
    remove(file)  # a run that was killed may have left it
    replay = make_replay(config, population, task, place, file)
    agent = make_agent(config, population, task)
    agent.execution = "eager"  # the learner executes its updates
    interval = Interval(config.agents, device, config.environment.info)
    training = kind(
        config=config,
        population=population,
        streams=streams,
        environments=environments,
        collector=collector,
        replay=replay,
        agent=agent,
        evaluations=make_evaluations(agent, config, task, worker_processes(environments)),
        interval=interval,
        learner=make_learner(
            agent,
            replay,
            interval,
            population,
            config.execution,
            config.precision,
            check=config.verify,
            report=lambda message: training.recorder.warn(training.step, message),
        ),
        recorder=Recorder(folder, population, sinks),
        replay_place=place,
    )
    collector.on_divergence = partial(freeze, training)
    return training


def make_collector(
    environments: Environments, population: Population, streams: Sequence[Streams]
) -> Collector:
    """A collector with exploration noise as the configuration sets it."""
    exploration = make_exploration(
        population.config,
        [own.explore for own in streams],
        environments.task.action_dim,
        population.each("loop.exploration_noise"),
    )
    return Collector(
        environments,
        len(streams),
        exploration,
        population.each("environment.reward_scale"),
        population.frozen,
    )


def make_agent(config: Config, population: Population, task: Task) -> TD3:
    """All agents of the run, as one `TD3` with an agent axis."""
    agent_class: type[TD3] = load_variant(config.variant.name)
    if config.variant.name:  # it may draw random numbers with PyTorch
        torch.manual_seed(config.seed)
    own = {
        key.partition(".")[2]: population.number(key)
        for key in config.grid
        if key.startswith("variant.")
    }
    return agent_class(
        task.state_dim,
        task.action_dim,
        hidden_sizes=config.agent.hidden_sizes,
        actor_learning_rate=population.number("agent.actor_learning_rate"),
        critic_learning_rate=population.number("agent.critic_learning_rate"),
        seed=config.agent_seeds,
        normalize_observations=config.environment.normalize_observations,
        layout=task.layout,
        channels=config.agent.channels,
        features=config.agent.features,
        device=population.device,
        variant=dataclasses.replace(config.variant, **own),
    )


def make_replay(
    config: Config, population: Population, task: Task, place: str, file: Path
) -> Replay:
    """A replay buffer of transitions, or of observations if that is smaller or needed.

    `file` takes the images if `place` is "disk".
    """
    seeds, size = config.agent_seeds, config.loop.replay_size
    replay_class = load_variant(config.variant.name).replay_class
    if not stores_observations(config, task):
        return replay_class(size, seed=seeds, device=place)  # type: ignore[no-any-return]
    if replay_class is not ReplayBuffer:
        raise UserError(
            f"The variant {config.variant.name} needs its own replay buffer, which stores whole "
            "transitions; it does not work with images or environment.frame_stack."
        )
    replay = FrameReplay(
        size,
        task.layout,
        environments=config.environment.count,
        n_step=config.agent.n_step,
        discount=population.number("agent.discount"),
        random_shift=config.agent.random_shift,
        file=file if place == "disk" else None,
        seed=seeds,
        device="cpu" if place == "disk" else place,
    )
    if place == "disk":  # a full disk is an error now, not at the first step
        replay.allocate(task.state_dim, task.action_dim)
    return replay


def worker_processes(environments: Environments) -> int:
    """How many processes step these environments, besides this one."""
    return len(environments.links) if isinstance(environments, WorkerPool) else 0

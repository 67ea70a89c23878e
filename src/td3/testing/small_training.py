"""A small training without environments: an agent, a replay buffer with data, and a learner."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.config import Config, from_dict
from td3.config.variants import variant_name
from td3.seeding import restore_stream, stream_state
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population

STATE, ACTION, SIZE = 4, 2, 400
MakeLearner = Callable[..., Learner]


def small_config(kind: type[TD3], settings: Mapping[str, Any], seeds: int, seed: int = 0) -> Config:
    return from_dict(
        {
            "environment": {"id": "none"},
            "agent": {"hidden_sizes": [32, 32], "batch_size": 32},
            "variant": {"name": variant_name(kind), **settings},
            "seeds": seeds,
            "seed": seed,
        }
    )


def make_training(
    kind: type[TD3],
    settings: Mapping[str, Any],
    *,
    seeds: int = 1,
    seed: int = 0,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    learner: MakeLearner = Learner,
    rows: Callable[[np.random.Generator], np.ndarray[Any, Any]] | None = None,
) -> Learner:
    """A learner of `kind`, with `seeds` agents; agent k depends on its seed alone."""
    config = small_config(kind, settings, seeds, seed)
    place = torch.device(device)
    population = Population(config, place)
    torch.manual_seed(config.seed)  # as in a run
    agent = kind(
        STATE,
        ACTION,
        hidden_sizes=config.agent.hidden_sizes,
        actor_learning_rate=1e-3,
        critic_learning_rate=1e-3,
        seed=config.agent_seeds,
        device=place,
        dtype=dtype,
        variant=config.variant,
    )
    replay = kind.replay_class(SIZE, seed=config.agent_seeds, device=place, dtype=dtype)
    assert isinstance(replay, ReplayBuffer)
    fill(replay, config.agent_seeds, rows or random_rows)
    return learner(agent, replay, Interval(seeds, place), population)


def fill(replay: ReplayBuffer, seeds: list[int], rows: Any) -> None:
    """Store rows that depend on each agent's seed."""
    replay.allocate(STATE, ACTION)
    for agent, seed in enumerate(seeds):
        for row in rows(np.random.default_rng(seed)):
            replay.append(agent, row)


def random_rows(generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """Transitions with random numbers; a tenth of them end an episode."""
    rows = generator.standard_normal((SIZE, 2 * STATE + ACTION + 2))
    rows[:, 2 * STATE : 2 * STATE + ACTION] = generator.uniform(-1, 1, (SIZE, ACTION))
    rows[:, -1] = generator.random(SIZE) < 0.1
    return rows


def one_step_rows(generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """A world of one step. The reward 1 - |action - 0.5|² is highest at 0.5 in every state.

    States are small, but not all equal: batch normalisation needs a spread.
    """
    rows = random_rows(generator)
    rows[:, : 2 * STATE] *= 0.1
    actions = rows[:, 2 * STATE : 2 * STATE + ACTION]
    rows[:, -2] = 1 - np.square(actions - 0.5).sum(axis=1)
    rows[:, -1] = 1
    return rows


def numbers_of(learner: Learner) -> dict[str, Tensor]:
    """Copies of everything that learning changes."""
    found = {name: tensor.clone() for name, tensor in learner.agent.tensors().items()}
    return found | {f"replay.{k}": v.clone() for k, v in learner.replay.tensors().items()}


def continue_from(source: Learner, target: Learner) -> None:
    """Bring a fresh learner to the state of another one, as a checkpoint does."""
    target.agent.restore({name: t.clone() for name, t in source.agent.tensors().items()})
    target.replay.restore({name: t.clone() for name, t in source.replay.tensors().items()})
    for name, streams in target.streams().items():
        for stream, other in zip(streams, source.streams()[name], strict=True):
            restore_stream(stream, stream_state(other))

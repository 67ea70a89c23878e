"""Two learners with the same replay buffer, streams and experience, for comparison."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.algorithm.transitions import Transitions
from td3.config import Config, from_dict
from td3.config.variants import load_variant
from td3.seeding import stream_state
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population

STATE, ACTION, RING, CPU = 5, 2, 50, torch.device("cpu")


def config(agents: int = 3, **tables: Any) -> Config:
    small: dict[str, Any] = {
        "agent": {"hidden_sizes": [16, 16], "batch_size": 8},
        "environment": {"id": "none"},
    }
    for name, table in tables.items():
        small[name] = {**small.get(name, {}), **table}
    return from_dict({**small, "seeds": agents})


def parts(
    settings: Config, dtype: torch.dtype = torch.float32
) -> tuple[TD3, ReplayBuffer, Interval, Population]:
    seeds = settings.agent_seeds
    population = Population(settings, CPU)
    agent = load_variant(settings.variant.name)(
        STATE,
        ACTION,
        hidden_sizes=settings.agent.hidden_sizes,
        seed=seeds,
        dtype=dtype,
        actor_learning_rate=population.number("agent.actor_learning_rate"),
        critic_learning_rate=population.number("agent.critic_learning_rate"),
        normalize_observations=settings.environment.normalize_observations,
        variant=settings.variant,
    )
    agent.execution = "eager"  # as in a run: the learner executes its updates
    ring = ReplayBuffer(RING, seed=seeds, dtype=dtype)
    return agent, ring, Interval(len(seeds), CPU), population


def as_transitions(
    owners: Sequence[int] | NDArray[np.int64], rows: NDArray[np.float32]
) -> Transitions:
    """Rows as transitions, each from another environment."""
    begins = np.zeros(len(rows), dtype=np.bool_)
    return Transitions(np.asarray(owners, dtype=np.int64), np.arange(len(rows)), rows, begins)


def act_and_learn(
    learners: tuple[Learner, Learner],
    steps: int,
    per_agent: int,
    seed: int = 0,
    tolerance: float = 0.0,
) -> None:
    """Act, learn and store until the ring buffer wraps and blocks of random numbers end."""
    agents = learners[0].agent.agents
    owners = np.repeat(np.arange(agents), per_agent)
    rng = np.random.default_rng(seed)
    for step in range(steps):
        rows = rng.normal(size=(agents * per_agent, 2 * STATE + ACTION + 2)).astype(np.float32)
        states = rng.normal(size=(agents * per_agent, STATE)).astype(np.float32)
        actions = []
        for learner in learners:
            if learner.agent.normalizer:
                learner.agent.normalizer.observe(owners, states)
            updates = per_agent if learner.replay.filled else 0
            if step % 3:
                learner.prefetch_actions(states)
            actions.append(learner.act(states))
            if updates:
                learner.learn(updates)
            learner.store(as_transitions(owners, rows))
        assert np.abs(actions[0] - actions[1]).max() <= tolerance


def assert_same(plain: Learner, other: Learner, tolerance: float = 0.0) -> None:
    mine, theirs = plain.agent.tensors(), other.agent.tensors()
    for name in mine:
        assert (mine[name] - theirs[name]).abs().max() <= tolerance, name
    assert plain.replay.rows is not None
    assert other.replay.rows is not None
    assert torch.equal(plain.replay.rows, other.replay.rows)
    assert (plain.interval.sums - other.interval.sums).abs().max() <= 100 * tolerance
    assert (plain.interval.counts == other.interval.counts).all()
    for name, streams in plain.streams().items():
        pairs = zip(streams, other.streams()[name], strict=True)
        assert all(stream_state(one) == stream_state(two) for one, two in pairs)

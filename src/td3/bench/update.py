"""Speed of updates alone: steps 4 to 15 on a full replay buffer of random transitions."""

import dataclasses
from typing import Any, NamedTuple

import torch

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.bench import measure
from td3.bench.measure import Benchmark, Figure, Rounds
from td3.config import Config, EnvironmentConfig
from td3.config.checks import check
from td3.config.variants import load_variant
from td3.errors import UserError
from td3.execution import make_learner
from td3.execution.flop import update_flop
from td3.run.memory import check_memory, example_task
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population


class PreparedUpdate(NamedTuple):
    """A learner that can be timed, and its sizes."""

    config: Config
    device: torch.device
    learner: Learner
    state_dim: int
    action_dim: int

    @property
    def flop(self) -> float | None:
        """Of the matrix products of an update; None for networks other than TD3's."""
        kind = type(self.learner.agent)
        if (kind.make_actor, kind.make_critic) != (TD3.make_actor, TD3.make_critic):
            return None
        sizes = (self.state_dim, self.action_dim, self.config.agent.hidden_sizes)
        agent = self.config.agent
        return update_flop(*sizes, agent.batch_size, self.config.agents, agent.policy_freq)

    def describe(self, rounds: Rounds) -> dict[str, Any]:
        return measure.describe_settings(self.config, self.device, rounds) | {
            "state_dim": self.state_dim,
            "action_dim": self.action_dim,
            **({"megaflop_per_update": self.flop / 1e6} if self.flop else {}),
        }


def bench_update(config: Config, state_dim: int, action_dim: int, rounds: Rounds) -> Benchmark:
    """Measure updates of these sizes."""
    circumstances = measure.describe_circumstances()
    prepared = prepare_update(config, state_dim, action_dim)
    works = {"update": prepared.learner.learn}
    seconds = measure.measure_in_turn(works, config.agent.policy_freq, rounds, prepared.device)
    figures = update_figures(seconds["update"], prepared.flop, config.agents)
    return Benchmark("update", prepared.describe(rounds), figures, circumstances)


def update_figures(seconds: list[float], flop: float | None, agents: int) -> dict[str, Figure]:
    """Return the figures for these seconds per update, one per round."""
    speeds = {
        "updates_per_second": Figure("1/s", [1 / s for s in seconds]),
        "agent_updates_per_second": Figure("1/s", [agents / s for s in seconds]),
        "milliseconds_per_update": Figure("ms", [1e3 * s for s in seconds]),
    }
    if flop is None:
        return speeds
    return speeds | {
        "update_gigaflop_per_second": Figure("GFLOP/s", [flop / s / 1e9 for s in seconds])
    }


def prepare_update(config: Config, state_dim: int, action_dim: int) -> PreparedUpdate:
    if min(state_dim, action_dim) < 1:
        raise UserError("state-dim and action-dim must be 1 or more.")
    config = check(dataclasses.replace(config, environment=EnvironmentConfig("random numbers")))
    device = measure.prepare_device(config)
    config = dataclasses.replace(config, device=str(device))
    kind: type[TD3] = load_variant(config.variant.name)
    agent = kind(
        state_dim,
        action_dim,
        hidden_sizes=config.agent.hidden_sizes,
        actor_learning_rate=config.agent.actor_learning_rate,
        critic_learning_rate=config.agent.critic_learning_rate,
        seed=config.agent_seeds,
        normalize_observations=config.environment.normalize_observations,
        device=config.device,
        variant=config.variant,
    )
    replay = make_full_replay(config, state_dim, action_dim)
    interval, population = Interval(config.agents, device), Population(config, device)
    learner = make_learner(
        agent, replay, interval, population, config.execution, config.precision, check=False
    )
    return PreparedUpdate(config, device, learner, state_dim, action_dim)


def make_full_replay(config: Config, state_dim: int, action_dim: int) -> ReplayBuffer:
    """Fill a replay buffer with random transitions: 1 in 100 terminal, actions in range."""
    place = check_memory(config, example_task(state_dim, action_dim))
    kind: type[ReplayBuffer] = load_variant(config.variant.name).replay_class
    replay = kind(config.loop.replay_size, seed=config.agent_seeds, device=place)
    replay.allocate(state_dim, action_dim)
    assert replay.rows is not None
    replay.rows.normal_()
    replay.rows[..., 2 * state_dim : 2 * state_dim + action_dim].clamp_(-1, 1)
    replay.rows[..., -1].bernoulli_(0.01)
    replay.added[:] = replay.capacity
    replay.note_new(torch.arange(replay.agents * replay.capacity))
    return replay

"""Does an agent learn? Checks of the metrics of a run, with advice.

The thresholds are those of docs/guide/reading-your-run.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.doctor.check import Check
from td3.policy.policy import Policy

Floats = NDArray[np.float64]
Line = tuple[NDArray[np.int64], Floats]
"""Steps and values, without missing ones."""
NOTHING: Line = (np.empty(0, dtype=np.int64), np.empty(0))
RECENT = 5  # records that make the present value
PATIENCE = 10  # times loop.random_steps without a rise
FAR = 5.0  # times the largest plausible discounted return
NEARLY_ALL = 0.97  # of all action components
DEAD = 0.9  # of the units of a layer; the pretrained policies have 0 to 0.88


@dataclass(frozen=True)
class Learner:
    """What the checks need of one agent."""

    name: str
    lines: Mapping[str, Line]
    """Metrics by the names of metrics.jsonl."""
    settings: Mapping[str, Any]
    """Settings by dotted names, those of the grid included."""
    frozen: int | None = None
    """Step at which the agent diverged."""

    def line(self, name: str) -> Line:
        return self.lines.get(name, NOTHING)

    def recent(self, name: str) -> float | None:
        """The mean of the last records."""
        values = self.line(name)[1][-RECENT:]
        return float(values.mean()) if len(values) >= RECENT else None

    def number(self, key: str, default: float) -> float:
        value = self.settings.get(key)
        return float(value) if isinstance(value, int | float) else default


def check_learner(learner: Learner) -> Iterator[Check]:
    """What is wrong with an agent; nothing if it looks healthy."""
    if learner.frozen is not None:
        yield Check(
            "diverged",
            "error",
            f"{learner.name} diverged at step {learner.frozen:,} and is frozen.",
            "Lower agent.critic_learning_rate or environment.reward_scale. Its best policy stays.",
        )
    stuck = not has_risen(learner)
    yield from check_return(learner, stuck)
    yield from check_saturation(learner, stuck)
    yield from check_q(learner)


def has_risen(learner: Learner) -> bool:
    """Whether the return exceeds its start; also true while it is too early to judge."""
    steps, returns = learner.line("mean_return")
    random = learner.number("loop.random_steps", 25_000)
    later = returns[steps > random]
    if len(later) < RECENT or steps[-1] < PATIENCE * random or len(later) == len(returns):
        return True
    before = returns[steps <= random]
    spread = learner.line("std_return")[1]
    noise = float(np.median(spread)) if len(spread) else 0.0
    best = float(np.convolve(later, np.full(3, 1 / 3), "valid").max())
    return best > float(before.mean()) + max(noise, 1e-3 * abs(float(before.mean())))


def check_return(learner: Learner, stuck: bool) -> Iterator[Check]:
    steps, returns = learner.line("mean_return")
    if stuck:
        yield Check(
            "no learning",
            "warning",
            f"{learner.name}: the evaluation return has not risen above its start after "
            f"{int(steps[-1]):,} steps, {PATIENCE} times loop.random_steps or more.",
            "Check the reward and the episode ends with td3 doctor ENVIRONMENT, then saturated "
            "actions and mean Q below.",
        )
    if len(returns) < 4 * RECENT or stuck:
        return
    best, now = float(returns.max()), float(returns[-2 * RECENT :].mean())
    if best - now > 0.5 * (best - float(returns.min())):
        yield Check(
            "collapse",
            "warning",
            f"{learner.name}: the last ten evaluations have a mean of {now:,.4g}, the best one was "
            f"{best:,.4g}.",
            "The run collapsed late. The best policy is stored; report the mean over more seeds.",
        )


def check_saturation(learner: Learner, stuck: bool) -> Iterator[Check]:
    share = learner.recent("saturated")
    if share is not None and share > NEARLY_ALL and (stuck or share == 1.0):
        yield Check(
            "saturated actions",
            "warning",
            f"{learner.name}: {share:.0%} of the action components are at their bounds, where the "
            "actor gets hardly any gradient.",
            "Lower agent.actor_learning_rate, scale large rewards down (environment.reward_scale), "
            "normalise observations (environment.normalize_observations), or use more "
            "loop.random_steps.",
        )


def check_q(learner: Learner) -> Iterator[Check]:
    q, bound = learner.recent("q"), largest_return(learner)
    if q is not None and bound is not None and abs(q) > FAR * bound:
        yield Check(
            "exploding Q",
            "warning",
            f"{learner.name}: mean Q is {q:,.3g}, but with the rewards seen so far the discounted "
            f"return is at most about {bound:,.3g}.",
            "The critics overestimate or diverge. Lower agent.critic_learning_rate, or "
            "environment.reward_scale if rewards are far above 1.",
        )


def largest_return(learner: Learner) -> float | None:
    """The largest mean reward per step of an episode, received forever; None if unknown."""
    steps, returns = learner.line("episode_return")
    other, lengths = learner.line("episode_length")
    shared, here, there = np.intersect1d(steps, other, return_indices=True)
    discount = learner.number("agent.discount", 0.99)
    if not len(shared) or discount >= 1:
        return None
    rewards = np.abs(returns[here]) / np.maximum(lengths[there], 1)
    scale = abs(learner.number("environment.reward_scale", 1.0))
    return max(1.0, scale * float(rewards.max()) / (1 - discount))


def dead_units(policy: Policy, states: NDArray[np.float32]) -> list[tuple[int, int]]:
    """For each hidden layer of a stock actor: units that are 0 for all these states, and all."""
    from td3.policy.layers import normalize

    x = normalize(states, policy.statistics) if policy.statistics else states
    found = []
    for weight, bias in policy.layers[:-1]:
        x = np.maximum(x @ weight + bias, 0)
        found.append((int((x <= 0).all(axis=0).sum()), x.shape[1]))
    return found


def check_units(name: str, layers: list[tuple[int, int]]) -> Iterator[Check]:
    """A warning if nearly all units of a layer are dead."""
    for number, (dead, units) in enumerate(layers, start=1):
        if dead > DEAD * units:
            yield Check(
                "dead units",
                "warning",
                f"{name}: {dead} of {units} units in hidden layer {number} of the actor are 0 for "
                "all recent states and learn nothing.",
                "Lower agent.actor_learning_rate, or normalise observations "
                "(environment.normalize_observations).",
            )

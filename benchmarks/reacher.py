"""How version, start states and policy affect the returns of Reacher-v5.

Run it with: python -m benchmarks.reacher. It uses the pretrained policy.
"""

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from benchmarks.td3_bench.best_policy import TEST_SEED, play
from td3.environments.environment import Environment
from td3.policy.evaluation import episode_seeds
from td3.policy.load import load_policy
from td3.policy.policy import Policy
from td3.report.summary import read_run

TO_TARGET = slice(8, 10)  # part of the observation
ROUNDS, PLANS, KEPT = 40, 60, 8  # cross-entropy method

Floats = NDArray[np.float64]


def distance_gain(policy: Policy, episodes: int = 100) -> float:
    """Return the mean of first − last distance per episode: what version 5 pays in addition."""
    environment, gains = Environment(policy.environment), []
    for seed in episode_seeds(TEST_SEED, episodes):
        state, over = environment.reset(seed=seed), False
        first = np.linalg.norm(state[TO_TARGET])
        while not over:
            state, _, terminated, truncated = environment.step(policy.act(state))
            over = terminated or truncated
        gains.append(first - np.linalg.norm(state[TO_TARGET]))
    environment.close()
    return float(np.mean(gains))


def selection_gain(
    returns: Floats, evaluations: int = 200, runs: int = 10, episodes: int = 10
) -> float:
    """Return how far the best mean of Tianshou's evaluations lies above their mean.

    Each evaluation has different start states. An environment is seeded with the number of its run
    plus its own number, so neighbouring runs share most start states.
    """
    played = np.convolve(np.ones(runs), np.ones(episodes))  # weight of each start state
    drawn = np.random.default_rng(0).choice(returns, (1000, evaluations, len(played)))
    best = (drawn @ (played / played.sum())).max(axis=1)
    return float(best.mean() - returns.mean())


def planning_gain(policy: Policy, episodes: int = 25) -> float:
    """Return the mean gain from planning with the simulator around the policy's actions."""
    environment, gains = Environment(policy.environment), []
    task: Any = environment.env.unwrapped
    for seed in episode_seeds(TEST_SEED, episodes):
        state, over, actions = environment.reset(seed=seed), False, []
        start = task.data.qpos.copy(), task.data.qvel.copy()
        while not over:
            actions.append(policy.act(state))
            state, _, terminated, truncated = environment.step(actions[-1])
            over = terminated or truncated
        played = np.array(actions, dtype=np.float64)
        gains.append(plan_return(task, start, played) - play_actions(task, start, played))
    environment.close()
    return float(np.mean(gains))


def plan_return(task: Any, start: tuple[Floats, Floats], played: Floats) -> float:
    """Return the best return that the cross-entropy method finds around these actions."""
    stream = np.random.default_rng(0)
    best, mean, spread = played, played, np.full_like(played, 0.15)
    for _ in range(ROUNDS):
        noise = stream.standard_normal((PLANS, *played.shape))
        for step in range(1, len(played)):  # smooth over time
            noise[:, step] = 0.7 * (noise[:, step - 1] + noise[:, step])
        plans = np.concatenate([best[None], np.clip(mean + spread * noise, -1, 1)])
        order = np.argsort([-play_actions(task, start, plan) for plan in plans])[:KEPT]
        best, mean = plans[order[0]], plans[order].mean(axis=0)
        spread = 0.8 * plans[order].std(axis=0) + 0.16 * spread
    return play_actions(task, start, best)


def play_actions(task: Any, start: tuple[Floats, Floats], actions: Floats) -> float:
    """Return the return of an episode with these actions."""
    mujoco.mj_resetData(task.model, task.data)
    task.set_state(*start)
    total = 0.0
    for action in actions:
        task.data.ctrl[:] = action
        mujoco.mj_step(task.model, task.data, nstep=task.frame_skip)
        offset = task.data.body("fingertip").xpos - task.data.body("target").xpos
        total -= float(np.linalg.norm(offset) + action @ action)
    return total


if __name__ == "__main__":
    policy = load_policy(pretrained="Reacher-v5")
    returns = play(policy, TEST_SEED, 1000)
    print(f"version 5 pays more than version 1, per episode: {distance_gain(policy):.2f}")
    print(f"gain from selecting the best of Tianshou's evaluations: {selection_gain(returns):.2f}")
    print(f"mean return over 1,000 episodes: {returns.mean():.2f}")
    print(f"gain from planning around the policy, per episode: {planning_gain(policy):.2f}")
    stored = read_run(Path(__file__).parent / "results" / "paper" / "Reacher-v5")
    seeds = [own.mean_returns[-10:].mean() for own in stored.evaluations.values()]
    alone = [play(policy, own.seed, 10).mean() for own in stored.evaluations.values()]
    print(
        f"standard deviation of ten seeds {np.std(seeds):.2f}, of one policy on their start states "
        f"{np.std(alone):.2f}; correlation {np.corrcoef(seeds, alone)[0, 1]:.2f}"
    )

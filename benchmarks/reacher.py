"""What version, starts and policy decide of Reacher-v5's returns; by the policy we ship."""

from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from td3.bench.paper import TEST_SEED, returns_of
from td3.environments.environment import Environment
from td3.policy.evaluation import episode_seeds
from td3.policy.load import load_policy
from td3.policy.policy import Policy
from td3.report.summary import read_run

TO_TARGET = slice(8, 10)  # of an observation
ROUNDS, PLANS, KEPT = 40, 60, 8  # of the cross-entropy method

Floats = NDArray[np.float64]


def nearer(policy: Policy, episodes: int = 100) -> float:
    """First distance minus last, which version 5 pays more than version 1, an episode's mean."""
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


def luck(returns: Floats, evaluations: int = 200, runs: int = 10, episodes: int = 10) -> float:
    """By how much the best mean over Tianshou's runs is above their mean.

    Each evaluation has other starts. An environment is seeded by the number of its run plus its
    own, so that neighbouring runs share most of theirs.
    """
    played = np.convolve(np.ones(runs), np.ones(episodes))  # how often each start counts
    drawn = np.random.default_rng(0).choice(returns, (1000, evaluations, len(played)))
    best = (drawn @ (played / played.sum())).max(axis=1)
    return float(best.mean() - returns.mean())


def improvable(policy: Policy, episodes: int = 25) -> float:
    """What planning with the simulator itself adds to the policy's episodes, in the mean."""
    environment, gains = Environment(policy.environment), []
    task = environment.env.unwrapped
    for seed in episode_seeds(TEST_SEED, episodes):
        state, over, actions = environment.reset(seed=seed), False, []
        start = task.data.qpos.copy(), task.data.qvel.copy()
        while not over:
            actions.append(policy.act(state))
            state, _, terminated, truncated = environment.step(actions[-1])
            over = terminated or truncated
        played = np.array(actions, dtype=np.float64)
        gains.append(planned(task, start, played) - earned(task, start, played))
    environment.close()
    return float(np.mean(gains))


def planned(task, start: tuple[Floats, Floats], played: Floats) -> float:
    """The return of the best actions that the cross-entropy method finds around those played."""
    stream = np.random.default_rng(0)
    best, mean, spread = played, played, np.full_like(played, 0.15)
    for _ in range(ROUNDS):
        noise = stream.standard_normal((PLANS, *played.shape))
        for step in range(1, len(played)):  # smooth over time
            noise[:, step] = 0.7 * (noise[:, step - 1] + noise[:, step])
        plans = np.concatenate([best[None], np.clip(mean + spread * noise, -1, 1)])
        order = np.argsort([-earned(task, start, plan) for plan in plans])[:KEPT]
        best, mean = plans[order[0]], plans[order].mean(axis=0)
        spread = 0.8 * plans[order].std(axis=0) + 0.16 * spread
    return earned(task, start, best)


def earned(task, start: tuple[Floats, Floats], actions: Floats) -> float:
    """What an episode with these actions earns."""
    mujoco.mj_resetData(task.model, task.data)
    task.set_state(*start)
    total = 0.0
    for action in actions:
        task.data.ctrl[:] = action
        mujoco.mj_step(task.model, task.data, nstep=task.frame_skip)
        away = task.data.body("fingertip").xpos - task.data.body("target").xpos
        total -= float(np.linalg.norm(away) + action @ action)
    return total


if __name__ == "__main__":
    policy = load_policy(pretrained="Reacher-v5")
    returns = returns_of(policy, TEST_SEED, 1000)
    print(f"paid more by version 5 than by version 1: {nearer(policy):.2f} an episode")
    print(f"won by choosing the best of Tianshou's evaluations: {luck(returns):.2f}")
    print(f"earned over 1,000 episodes: {returns.mean():.2f}")
    print(
        f"found by planning around what the policy does: {improvable(policy):.2f} an episode more"
    )
    stored = read_run(Path(__file__).parent / "results" / "paper" / "Reacher-v5")
    seeds = [own.mean_returns[-10:].mean() for own in stored.evaluations.values()]
    alone = [returns_of(policy, own.seed, 10).mean() for own in stored.evaluations.values()]
    print(
        f"deviation of ten seeds {np.std(seeds):.2f}, of one policy on their starts "
        f"{np.std(alone):.2f}; correlation {np.corrcoef(seeds, alone)[0, 1]:.2f}"
    )

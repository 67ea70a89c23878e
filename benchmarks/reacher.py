"""What version and starts decide of Reacher-v5's returns, by the policy that comes along."""

from pathlib import Path

import numpy as np

from td3.bench.paper import TEST_SEED, returns_of
from td3.environments import Environment
from td3.evaluation import episode_seeds
from td3.policy import Policy, load_policy
from td3.pretrained import pretrained
from td3.report.summary import read_run

TO_TARGET = slice(8, 10)  # of an observation


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


if __name__ == "__main__":
    policy = load_policy(pretrained("Reacher-v5"))
    print(f"paid more by version 5 than by version 1: {nearer(policy):.2f} an episode")
    stored = read_run(Path(__file__).parent / "results" / "paper" / "Reacher-v5")
    seeds = [own.mean_returns[-10:].mean() for own in stored.evaluations.values()]
    alone = [returns_of(policy, own.seed, 10).mean() for own in stored.evaluations.values()]
    print(
        f"deviation of ten seeds {np.std(seeds):.2f}, of one policy on their starts "
        f"{np.std(alone):.2f}; correlation {np.corrcoef(seeds, alone)[0, 1]:.2f}"
    )

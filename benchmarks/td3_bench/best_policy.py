"""Keep the small files of a finished run and its best policy, with the return of that policy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.td3_bench.plan import Plan
from benchmarks.td3_bench.stored import store_run
from td3.environments.simulators import import_module_of
from td3.intervals import mean_interval
from td3.policy.file import save_policy
from td3.policy.load import load_policy, policies_of
from td3.policy.policy import Policy

TEST_EPISODES, TEST_SEED = 100, 2_000_000  # distinct from the seeds of td3 evaluate
CHOICE_EPISODES, CHOICE_SEED = 20, 3_000_000  # to choose among the agents


def keep_results(plan: Plan, task: str) -> dict[str, Any]:
    """Store a finished run and its best policy; return the measured return of the policy."""
    store_run(plan.run_folder(task), plan.result_folder(task))
    policies, target = policies_of(plan.run_folder(task)), plan.policy_file(task)
    if target.exists():
        known = load_policy(target).card
        if "tested" in known and known["sha256"] in [own.card["sha256"] for own in policies]:
            return dict(known["tested"])
    import_module_of(task)  # the user named it; the card of a policy alone is not enough
    policy, config = choose_best(policies), plan.config
    origin = {"recipe": config.recipe, "seeds": config.seeds, "steps": config.loop.steps}
    found = {"tested": measure_return(policy), "chosen_from": origin}
    save_policy(policy.tensors, policy.card | found, target)
    return found["tested"]


def choose_best(policies: Sequence[Policy]) -> Policy:
    """Return the best policy on common starts; during training each seed has its own starts."""
    if len(policies) == 1:
        return policies[0]
    return max(policies, key=lambda one: play(one, CHOICE_SEED, CHOICE_EPISODES).mean())


def measure_return(policy: Policy) -> dict[str, Any]:
    """Return the mean return on episodes that were not used to train or choose the policy."""
    returns = play(policy, TEST_SEED, TEST_EPISODES)
    low, high = mean_interval(returns)
    return {
        "episodes": TEST_EPISODES,
        "seed": TEST_SEED,
        "mean_return": float(returns.mean()),
        "std_return": float(returns.std()),
        "mean_return_low": float(low),
        "mean_return_high": float(high),
    }


def play(policy: Policy, seed: int, episodes: int) -> NDArray[np.float64]:
    """Return the return of each episode."""
    torch.set_num_threads(1)
    return policy.evaluate(episodes, seed).returns

"""The policies that a run kept while it trained."""

import os
from pathlib import Path
from typing import Any

from td3.errors import UserError
from td3.policy.load import KEPT, Which, load_policy, policy_folder, read_policy
from td3.policy.policy import Policy
from td3.run.copies import kept_runs


def snapshots(
    run: Path,
    every: int,
    agent: int | None = None,
    *,
    which: Which = "best",
    variant: str | type[Any] | None = None,
) -> dict[str, Policy]:
    """Name → policy: the first one that a run kept at or after each multiple of `every` steps.

    The names are `step-0`, `step-20000` and so on. The last one is `best` (or `last`): the policy
    that `load_policy` gives. `evaluation.keep_every` keeps policies; checkpoints that
    `checkpoint.keep_every` keeps have them too.

    Raises:
        UserError: There is no such run, or it kept none.
    """
    if every < 1:
        raise UserError(f"every must be 1 or more, got {every}.")
    if run.suffix == ".safetensors":
        raise UserError(f"{run} is one policy; --every needs a run folder.")
    chosen = load_policy(run, agent, which=which, variant=variant)
    kept = kept_policies(run, number_of(chosen), variant)
    if not kept:
        raise UserError(
            f"{run} kept no policies of agent {number_of(chosen)} besides the best and the last. "
            f"Train with td3 train … --evaluation.keep-every {every} to keep one every {every:,} "
            "steps."
        )
    found, before = {}, -1
    for step, policy in kept.items():
        if step // every > before:
            found[f"step-{step}"] = policy
        before = step // every
    return {**found, which: chosen}


def number_of(policy: Policy) -> int:
    """The number of the agent that a policy of a run belongs to."""
    return int(policy.name.split("-")[1])


def kept_policies(
    run: Path, agent: int, variant: str | type[Any] | None = None
) -> dict[int, Policy]:
    """Step → policy of an agent, oldest first, besides the best and the last of the run."""
    folder = policy_folder(run)
    found = {}
    for kept in kept_runs(folder.parent if folder.name == "policy" else run).values():
        file = kept / "policy" / f"agent-{agent}-last.safetensors"
        if file.is_file() and not file.parent.is_symlink():
            policy = read_policy(file, variant)
            policy.name = f"agent-{agent}-step-{policy.step or 0}"
            found[policy.step or 0] = policy
    for match in filter(None, map(KEPT.fullmatch, sorted(os.listdir(folder)))):
        if int(match[1]) == agent:
            found[int(match[2])] = read_policy(folder / match[0], variant)
    return dict(sorted(found.items()))

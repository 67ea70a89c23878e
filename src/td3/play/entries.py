"""What the page needs of a policy: its card in the page's words, and its numbers."""

import functools
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from td3.policy.policy import Policy

PAGE = Path(__file__).parent / "page"
Entry = dict[str, Any]


@functools.cache
def tasks() -> dict[str, Any]:
    """The tasks that the page simulates, with the defaults of their settings."""
    facts: dict[str, Any] = json.loads((PAGE / "tasks.json").read_text(encoding="utf-8"))
    return facts


def model_folder() -> Path:
    """The folder with Gymnasium's models. Finding it does not import MuJoCo."""
    spec = find_spec("gymnasium")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "envs" / "mujoco" / "assets"


def describe(policy: Policy, name: str, label: str) -> Entry:
    """A policy as an entry of `policies.json`; `reason` is why the page cannot simulate it."""
    config, card = policy.environment, policy.card
    scores = card.get("tested") or card
    entry: Entry = {
        "name": name,
        "label": label,
        "task": config.id,
        "about": about(policy),
        "reason": why_not(policy),
        **{key: scores[key] for key in ("mean_return", "std_return", "episodes") if key in scores},
    }
    if entry["reason"]:
        return entry
    facts = tasks()[config.id]
    limit = config.max_episode_steps or facts["max_steps"]
    return entry | {
        "kwargs": config.kwargs,
        "model": f"models/{facts['model']}",
        "sizes": [policy.layers[0][0].shape[0], *(bias.size for _, bias in policy.layers)],
        "normalize_observations": policy.statistics is not None,
        "action": {key: card["action"][key] for key in ("low", "high")},
        "frame_stack": config.frame_stack,
        "action_repeat": config.action_repeat,
        "max_steps": min(limit, policy.max_steps * config.action_repeat),
    }


def numbers(policy: Policy) -> bytes:
    """All numbers of a policy that can be simulated: float32, little-endian, in order of use."""
    arrays = [*(policy.statistics or ())]
    arrays += [array for layer in policy.layers for array in layer]
    return b"".join(np.ascontiguousarray(array, dtype="<f4").tobytes() for array in arrays)


def about(policy: Policy) -> str:
    """Where a policy comes from, in one line."""
    chosen = policy.card.get("chosen_from")
    facts = [
        "" if policy.step is None else f"{policy.step:,} training steps",
        f"seed {policy.card['seed']}" if "seed" in policy.card else "",
        f"the best of {chosen['seeds']} seeds" if chosen else "",
    ]
    return ", ".join(fact for fact in facts if fact)


def why_not(policy: Policy) -> str:
    """Why the page cannot simulate a policy; empty if it can."""
    config = policy.environment
    facts = tasks().get(config.id)
    if facts is None:
        return f"{config.id} is none of the MuJoCo tasks that this page simulates."
    unknown = set(config.kwargs) - set(facts["settings"]) - {"frame_skip"}
    if unknown:
        return f"This page does not know the setting {min(unknown)} of {config.id}."
    if config.pixels:
        return "This page does not simulate policies that see images."
    if policy.actor is not None:
        return "This page does not compute the network of this policy's variant."
    return ""

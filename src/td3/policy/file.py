"""The policy file: tensors, and in the header a card that describes how to use them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.images.encoder import Encoder
from td3.algorithm.stacked import StackedParameters
from td3.config import WRAPPERS, EnvironmentConfig
from td3.environments.task import ActionBounds, Task
from td3.errors import UserError, first_line
from td3.files import digest, replace_file
from td3.policy.variants import variant_facts, variant_tensors

FORMAT, READABLE = 2, (1, 2)  # format 1 had no checksum of its card


def policy_card(
    agent: TD3, task: Task, config: EnvironmentConfig, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything that a policy needs besides its tensors, and `facts` about it."""
    return {
        "environment": {
            "id": config.id,
            "kwargs": config.kwargs,
            **{name: getattr(config, name) for name in WRAPPERS},
            **({"max_episode_steps": limit} if (limit := config.max_episode_steps) else {}),
        },
        "observation": task.layout,
        "action": action_card(task.bounds),
        "hidden_sizes": list(agent.hidden_sizes),
        **encoder_facts(agent.encoder),
        "normalize_observations": agent.normalizer is not None,
        "reward_scale": config.reward_scale,
        **variant_facts(agent),
        **facts,
    }


def action_card(bounds: ActionBounds) -> dict[str, Any]:
    return {
        "low": bounds.low.tolist(),
        "high": bounds.high.tolist(),
        "shape": list(bounds.shape),
        "dtype": bounds.dtype,
    }


def read_bounds(card: Mapping[str, Any]) -> ActionBounds:
    """Undo `action_card` for the card of a policy."""
    action = card["action"]
    low, high = np.array(action["low"]), np.array(action["high"])
    return ActionBounds(low, high, tuple(action["shape"]), action["dtype"])


def encoder_facts(encoder: Encoder | None) -> dict[str, Any]:
    return {"channels": encoder.channels, "features": encoder.features} if encoder else {}


def policy_tensors(agent: TD3) -> list[dict[str, Tensor]]:
    """Copies of each agent's current policy, on the CPU."""
    networks: dict[str, StackedParameters | None] = {"actor": agent.actor, "encoder": agent.encoder}
    flats = {
        name: network.flat.detach().to("cpu", copy=True)
        for name, network in networks.items()
        if network
    }
    statistics = agent.normalizer.state_dict() if agent.normalizer else {}
    copied = {f"normalizer.{name}": tensor.clone() for name, tensor in statistics.items()}
    policies = []
    for rows in (slice(k, k + 1) for k in range(agent.agents)):
        policy = {
            f"{group}.{name}": view
            for group, flat in flats.items()
            for name, view in networks[group].named_layers(flat[rows]).items()  # type: ignore[union-attr]
        }
        policy |= {name: tensor[rows] for name, tensor in copied.items()}
        policies.append(policy | variant_tensors(agent, rows.start))
    return policies


def save_policy(tensors: Mapping[str, Tensor], card: Mapping[str, Any], path: Path) -> None:
    """Write one policy and its card to a file."""
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    card = {**card, "format": FORMAT, "sha256": checksum(tensors)}
    text = json.dumps(card | {"card_sha256": card_checksum(card)})
    replace_file(path, save(tensors, metadata={"card": text}))


def read_policy_file(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Card and tensors of a policy file. Raises UserError if it is damaged or not a policy."""
    try:
        with safe_open(path, framework="pt") as file:
            card = json.loads((file.metadata() or {}).get("card", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(f"Cannot read the policy {path}: {first_line(error)}.") from error
    if not isinstance(card, dict) or card.get("format") not in READABLE:
        known = " or ".join(map(str, READABLE))
        raise UserError(f"{path} is not a policy of format {known}.")
    unchecked = card["format"] == 1 and "card_sha256" not in card
    intact = unchecked or card.get("card_sha256") == card_checksum(card)
    try:
        if intact and card.get("sha256") == checksum(tensors):
            return card, tensors
    except TypeError as error:  # NumPy has no such numbers
        raise UserError(f"The policy {path} does not fit its card: {first_line(error)}.") from error
    raise UserError(f"The policy {path} is damaged: it fails its checksum.")


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Checksum of all numbers, in the order of their names."""
    return digest(b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors)))


def card_checksum(card: Mapping[str, Any]) -> str:
    """Checksum of everything in a card except the checksum itself."""
    content = {key: value for key, value in card.items() if key != "card_sha256"}
    return digest(json.dumps(content).encode())

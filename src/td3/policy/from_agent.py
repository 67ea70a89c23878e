"""Policies of an agent in training: their tensors, and the card that they share."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.images.encoder import Encoder
from td3.algorithm.stacked import StackedParameters
from td3.config import WRAPPERS, EnvironmentConfig
from td3.environments.task import Task
from td3.policy.file import action_card
from td3.policy.variants import variant_facts, variant_tensors


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

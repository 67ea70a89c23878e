"""Policies of variants that act in their own way: with another actor, or another view of states.

Such a policy needs the class that it was trained with. A file never makes td3 import a module: the
class must be built in, imported already, or named by the user.
"""

import dataclasses
import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.state import AgentState
from td3.config import from_dict
from td3.config.checks import check
from td3.config.variants import BUILT_IN, known, load_variant, variant_name
from td3.errors import UserError
from td3.layout import layout_size
from td3.policy.networks import is_stock

LEARNING = re.compile(r"\.(critic|target|optimizer)\.")
"""In the paths of tensors that a policy does not need."""


def acts_as_td3_does(agent: TD3) -> bool:
    """Whether actions come from the stock actor and the stock view of a state."""
    kind = type(agent)
    own = {"act", "observe"} & vars(agent).keys()
    stock = kind.act is AgentState.act and kind.observe is TD3.observe
    return stock and not own and is_stock(agent.actor)


def variant_facts(agent: TD3) -> dict[str, Any]:
    """The entries of a policy card about a variant; nothing if the policy does not need it."""
    if acts_as_td3_does(agent):
        return {}
    settings = {
        field.name: value
        for field in dataclasses.fields(agent.variant)
        if not isinstance(value := getattr(agent.variant, field.name), Tensor)
    }
    return {"variant": {**settings, "name": variant_name(type(agent))}}


def variant_tensors(agent: TD3, member: int) -> dict[str, Tensor]:
    """The tensors of one agent that only its class knows, on the CPU."""
    if acts_as_td3_does(agent):
        return {}
    return {
        name: tensor.detach().to("cpu", copy=True)
        for name, tensor in agent.member(member).tensors().items()
        if name.startswith("own.") and not LEARNING.search(name)
    }


def find_class(name: str, given: str | type[Any] | None, policy: str) -> type[TD3]:
    """The class of a policy's variant. Raises UserError if only the file names its module."""
    if given is not None:
        given = given if isinstance(given, str) else variant_name(given)
        if given != name:
            raise UserError(f"The policy {policy} needs the variant {name}, not {given}.")
        return load_variant(given)
    module = name.partition(":")[0]
    if name in BUILT_IN or name in known or module in sys.modules:
        return load_variant(name)
    raise UserError(
        f"The policy {policy} acts with the class {name}, which imports the Python module "
        f"{module}. If you trust it, name it: --variant {name} (in Python: variant={name!r})."
    )


def build_agent(
    card: Mapping[str, Any],
    action_dim: int,
    tensors: Mapping[str, ArrayLike],
    given: str | type[Any] | None,
    policy: str,
    dtype: torch.dtype = torch.float32,
) -> TD3:
    """An agent that acts as the policy does, computing in `dtype`.

    Raises ValueError or KeyError if the tensors do not fit the card.
    """
    table = dict(card["variant"])
    kind = find_class(table["name"], given, policy)
    settings = check(from_dict({"environment": card["environment"], "variant": table})).variant
    agent = kind(
        layout_size(card["observation"]),
        action_dim,
        hidden_sizes=card["hidden_sizes"],
        seed=0,
        dtype=dtype,
        normalize_observations=card["normalize_observations"],
        layout=card["observation"],
        variant=settings,
        **{key: card[key] for key in ("channels", "features") if key in card},
    )
    known_tensors = agent.tensors()
    needed = {name for name in known_tensors if name.startswith(("actor.", "encoder."))}
    if missing := needed - tensors.keys():
        raise ValueError(f"it has no {min(missing)}")
    for name, tensor in tensors.items():
        target, array = known_tensors[name], np.asarray(tensor)
        if tuple(target.shape) != array.shape:
            raise ValueError(f"{name} has the shape {array.shape}, not {tuple(target.shape)}")
        target.copy_(torch.as_tensor(array))
    if agent.normalizer:
        agent.normalizer.refresh()
    return agent

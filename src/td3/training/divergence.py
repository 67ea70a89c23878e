"""What happens when an agent diverges.

The agent is frozen: its networks, moments and transitions become zeros. They stay zeros, because
a network of zeros on transitions of zeros has no error and no gradient. So all agents keep using
the same update, and no step has to check which agents are frozen.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.tensors import has_agent_axis, rows_of_agents
from td3.errors import Diverged
from td3.training.metrics import Interval
from td3.training.state import TrainingState


def freeze(state: TrainingState, agent: int, why: str) -> None:
    """Freeze an agent that diverged; the others continue. The last agent ends the run."""
    population = state.population
    name = population.name(agent)
    if population.one_left:
        raise Diverged(
            f"{name.capitalize()} diverged: {why} by step {state.step}; "
            "try a smaller learning rate or reward_scale"
        )
    population.frozen[agent] = True
    erase_agent(state.agent, state.interval, agent)
    state.replay.erase(agent)
    facts = {"step": state.step, **population.facts(agent), "message": why}
    state.recorder.event("frozen", **facts)
    state.recorder.show({"kind": "frozen", "name": name, **facts})


def freeze_diverged(state: TrainingState) -> None:
    """Freeze every agent with a number that is not finite."""
    for agent, name in not_finite(
        state.agent.tensors() | state.interval.tensors(), state.agent.agents
    ).items():
        freeze(state, agent, f"{name} is no longer finite")


def not_finite(tensors: Mapping[str, Tensor], agents: int) -> dict[int, str]:
    """For each agent with a number that is not finite: the first of these tensors."""
    found: dict[int, str] = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            finite = rows_of_agents(torch.isfinite(tensor), agents).all(dim=1)
            for agent in torch.nonzero(~finite).flatten().tolist():
                found.setdefault(agent, name)
    return found


@torch.no_grad()
def erase_agent(agents: TD3, interval: Interval, agent: int) -> None:
    """Set everything that an agent has learned to zero, but not what all agents share."""
    member, whole = agents.member(agent), agents.tensors()
    for name, tensor in member.tensors().items():
        is_own = has_agent_axis(whole[name], agents.agents)
        if is_own and name not in ("max_action", "updates"):
            tensor.zero_()
    if member.normalizer:
        member.normalizer.refresh()
    for tensor in interval.tensors().values():
        tensor[agent] = 0

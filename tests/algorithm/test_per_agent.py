"""Numbers of the update that differ from agent to agent."""

import copy
from typing import Any

import pytest
import torch
from support.agents import copied, make_agent, make_batch, same

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings

SETTINGS = {
    "discount": [0.9, 0.99, 0.5],
    "tau": [0.01, 0.4, 0.7],
    "policy_noise": [0.1, 0.2, 3.0],
    "noise_clip": [0.5, 0.1, 0.3],
}
RATES = {"actor_learning_rate": [1e-3, 1e-2, 3e-4], "critic_learning_rate": [3e-4, 1e-3, 1e-2]}
AGENTS = 3


def tensors(table: dict[str, list[float]], dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    return {name: torch.tensor(values, dtype=dtype) for name, values in table.items()}


def chosen(table: dict[str, list[float]], agent: int) -> dict[str, Any]:
    return {name: values[agent] for name, values in table.items()}


def updated(agent: TD3, updates: int = 4, member: int | None = None, **settings: Any) -> TD3:
    """The agent after some updates on the batches of one member, or of all three."""
    rows = slice(None) if member is None else slice(member, member + 1)
    for number in range(updates):
        batch, noise = make_batch(AGENTS, seed=number)
        agent.update(
            Batch(*(part[rows] for part in batch)), noise[rows], UpdateSettings(**settings)
        )
    return agent


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_tensors_are_the_number_itself(dtype: torch.dtype) -> None:
    numbers = chosen(SETTINGS, 0)
    equal = tensors({name: [value] * AGENTS for name, value in numbers.items()}, dtype)
    rates = tensors({name: [values[0]] * AGENTS for name, values in RATES.items()})
    one = updated(make_agent(range(AGENTS), **chosen(RATES, 0)), **numbers)
    other = updated(make_agent(range(AGENTS), **rates), **equal)
    assert same(one.tensors(), other.tensors())


@pytest.mark.parametrize("member", range(AGENTS))
def test_each_agent_trains_with_its_own_numbers(member: int) -> None:
    together = updated(make_agent(range(AGENTS), **tensors(RATES)), **tensors(SETTINGS))
    alone = updated(
        make_agent(member, **chosen(RATES, member)), member=member, **chosen(SETTINGS, member)
    )
    for name, tensor in together.member(member).tensors().items():
        torch.testing.assert_close(tensor, alone.tensors()[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", [*SETTINGS, *RATES])
def test_every_number_matters_and_only_to_its_agent(name: str) -> None:
    def trained(last: float) -> TD3:
        table = {**SETTINGS, **RATES}
        table[name] = [*table[name][:2], last]
        rates = tensors({key: table[key] for key in RATES})
        return updated(
            make_agent(range(AGENTS), **rates), **tensors({key: table[key] for key in SETTINGS})
        )

    one, other = trained(0.2), trained(0.25)
    for member in range(2):
        assert same(one.member(member).tensors(), other.member(member).tensors())
    assert not same(one.member(2).tensors(), other.member(2).tensors())


def test_a_member_shares_its_rate_and_a_copy_has_its_own() -> None:
    agent = make_agent(range(AGENTS), **tensors(RATES))
    rates = agent.critic_optimizer.param_groups[0]["lr"]
    member, twin = agent.member(1), copy.deepcopy(agent)
    rates[1] = 0.0
    assert member.critic_optimizer.param_groups[0]["lr"].tolist() == [0.0]
    assert twin.critic_optimizer.param_groups[0]["lr"].tolist() == RATES["critic_learning_rate"]
    before = copied(agent)
    updated(member, 1, 1, **chosen(SETTINGS, 1))
    assert torch.equal(agent.tensors()["critic.layer_1.weight"], before["critic.layer_1.weight"])
    assert not torch.equal(agent.tensors()["actor.layer_1.weight"], before["actor.layer_1.weight"])

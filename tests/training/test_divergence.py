"""What is frozen when an agent diverges."""

import torch
from support.own_updates import SharedTensor

from td3.training.divergence import erase_agent, not_finite
from td3.training.metrics import Interval


def make_agents() -> SharedTensor:
    return SharedTensor(3, 2, hidden_sizes=(8, 8), seed=[0, 1])


def test_not_finite_with_a_number_of_one_agent_names_this_agent() -> None:
    agents = make_agents()
    agents.critic.flat.data[1, 0, 0] = torch.nan
    assert not_finite(agents.tensors(), 2) == {1: "critic.layer_1.weight"}


def test_not_finite_with_a_tensor_of_all_agents_names_all_agents() -> None:
    agents = make_agents()
    agents.weights[5] = torch.inf
    assert not_finite(agents.tensors(), 2) == dict.fromkeys((0, 1), "own.weights")
    agents.weights[5] = 1.0
    agents.total.fill_(torch.nan)
    assert not_finite(agents.tensors(), 2) == dict.fromkeys((0, 1), "own.total")


def test_erase_agent_keeps_tensors_of_all_agents() -> None:
    agents = make_agents()
    weights, other = agents.weights.clone(), agents.member(0).critic.flat.clone()
    erase_agent(agents, Interval(2, torch.device("cpu")), 1)
    assert not agents.member(1).critic.flat.any()
    assert torch.equal(agents.weights, weights)
    assert torch.equal(agents.member(0).critic.flat, other)

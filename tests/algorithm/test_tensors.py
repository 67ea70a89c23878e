"""Copies of an agent with other tensors, wherever its class keeps them."""

import copy
import types
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from td3.algorithm.agent import TD3
from td3.algorithm.stacked import PaddedParameter
from td3.algorithm.tensors import (
    TensorMapper,
    clone_tensors,
    map_tensors,
    named_tensors,
    take_member,
)


class Pair(NamedTuple):
    first: Tensor
    second: Any


@dataclass
class Box:
    inside: Any


class Holder:
    """An object of a user, with attributes of every kind."""

    def __init__(self) -> None:
        self.tensor = torch.ones(3, 2)
        self.same = self.tensor
        self.parts = {"pair": Pair(torch.zeros(3), "text"), "list": [self.tensor, 5]}
        self.plain = (1, "two")
        self.space = types.SimpleNamespace(tensor=torch.full((3,), 2.0))
        self.box = Box(torch.full((3,), 4.0))
        self.counts = defaultdict(list, {"a": [torch.zeros(1)]})
        self.method = self.double
        self.array = np.arange(3.0)
        self.generator = np.random.default_rng(0)
        self.function = len

    def double(self) -> Tensor:
        return 2 * self.tensor


def test_named_tensors_gives_the_path_of_the_first_occurrence() -> None:
    holder = Holder()
    found = named_tensors(holder)
    assert set(found) == {
        "tensor",
        "parts.pair.0",
        "space.tensor",
        "box.inside",
        "counts.a.0",
    }
    assert found["tensor"] is holder.tensor


def test_copy_keeps_shared_references() -> None:
    holder = Holder()
    other = clone_tensors(holder)
    assert other.tensor is other.same
    assert other.parts["list"][0] is other.tensor
    assert other.tensor is not holder.tensor
    other.tensor += 1
    assert holder.tensor.tolist() == [[1, 1]] * 3


def test_copy_binds_methods_to_the_copy() -> None:
    holder = Holder()
    other = clone_tensors(holder)
    other.tensor.zero_()
    assert other.method.__self__ is other
    assert other.method().sum() == 0
    assert holder.method().sum() == 12


def test_copy_keeps_the_kinds_of_containers() -> None:
    holder = Holder()
    other = map_tensors(holder, lambda path, tensor: tensor + 1)
    pair = other.parts["pair"]
    assert isinstance(pair, Pair)
    assert pair.first.tolist() == [1, 1, 1]
    assert pair.second == "text"
    assert other.plain is holder.plain
    assert other.space.tensor.tolist() == [3, 3, 3]
    assert other.box.inside.tolist() == [5, 5, 5]
    assert other.counts["new"] == []
    assert "new" not in holder.counts
    assert other.function is len


def test_objects_that_refer_to_each_other_are_copied_once() -> None:
    first, second = Box(None), Box(torch.ones(1))
    first.inside, second.inside = second, first
    other = clone_tensors(first)
    assert other.inside.inside is other
    assert other is not first


def test_arrays_and_generators_are_copied_by_clone_and_shared_by_member() -> None:
    holder = Holder()
    other, member = clone_tensors(holder), take_member(holder, 3, 0)
    other.array[0] = 9
    other.generator.random()
    assert holder.array[0] == 0
    expected = np.random.default_rng(0).random()
    assert member.array is holder.array
    assert member.generator is holder.generator
    assert holder.generator.random() == expected


def test_optimizer_state_follows_its_parameter() -> None:
    network = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    network(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    old = network.weight.detach().clone()
    other_network, other = clone_tensors((network, optimizer))
    assert list(other.state) == list(other_network.parameters())
    assert all(key is not mine for key, mine in zip(other.state, optimizer.state, strict=True))
    other_network(torch.ones(1, 2)).sum().backward()
    other.step()
    assert torch.equal(network.weight, old)
    assert not torch.equal(other_network.weight, old)
    assert float(optimizer.state[network.weight]["step"]) == 1
    assert float(other.state[other_network.weight]["step"]) == 2


def test_parameters_stay_parameters_with_their_padding() -> None:
    network = TD3(3, 2, hidden_sizes=(5,), seed=[0, 1]).critic
    network.flat.requires_grad_(False)
    for other in (clone_tensors(network), take_member(network, 2, 1), copy.deepcopy(network)):
        assert isinstance(other.flat, PaddedParameter)
        assert other.flat.padding == network.flat.padding > 0
        assert not other.flat.requires_grad
        assert list(other.parameters()) == [other.flat]
    frozen = clone_tensors(Box([torch.ones(2, requires_grad=True), torch.ones(2)])).inside
    assert [tensor.requires_grad for tensor in frozen] == [True, False]


def test_member_cuts_only_tensors_with_the_agent_axis() -> None:
    holder = Holder()
    member = take_member(holder, 3, 1)
    assert member.tensor.shape == (1, 2)
    assert member.parts["pair"].first.shape == (1,)
    assert member.counts["a"][0] is holder.counts["a"][0]
    member.tensor.zero_()
    assert holder.tensor.tolist() == [[1, 1], [0, 0], [1, 1]]


def test_member_of_an_agent_trains_the_agent() -> None:
    agents = TD3(3, 2, hidden_sizes=(5,), seed=[0, 1], actor_learning_rate=torch.tensor([0.1, 0.2]))
    member = agents.member(1)
    assert float(member.actor_optimizer.param_groups[0]["lr"]) == torch.tensor(0.2)
    (parameter,) = member.actor_optimizer.param_groups[0]["params"]
    assert parameter is member.actor.flat
    before = agents.actor.flat.detach().clone()
    parameter.grad = torch.ones_like(parameter)
    member.actor_optimizer.step()
    assert torch.equal(agents.actor.flat[0], before[0])
    assert not torch.equal(agents.actor.flat[1], before[1])
    assert agents.actor_optimizer.count.tolist() == [0, 1]


def test_mapper_lists_containers_and_values_by_path() -> None:
    holder = Holder()
    mapper = TensorMapper(lambda path, tensor: tensor, share_arrays=True)
    mapper.copy(holder)
    assert mapper.containers["parts"] is holder.parts
    assert mapper.containers[""] == vars(holder)
    assert mapper.values["parts.list.1"] == 5
    assert mapper.values["array"] is holder.array

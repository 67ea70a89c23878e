"""Steps 2 and 3: actor, twin critics and targets, for one agent and for several."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import td3
from td3.algorithm.agent import TD3
from td3.algorithm.networks import Actor, Critic, StackedMLP
from td3.seeding import Streams

STATE, ACTION, BATCH = 5, 3, 7
HIDDEN = (16, 12)


def make_actor(agents: int = 1, max_action: float | np.ndarray = 1.0) -> Actor:
    actor = Actor(STATE, ACTION, max_action, HIDDEN, agents=agents)
    actor.initialize([Streams.from_seed(seed).init for seed in range(agents)])
    return actor


def make_critic(agents: int = 1) -> Critic:
    critic = Critic(STATE, ACTION, HIDDEN, agents=agents)
    critic.initialize([Streams.from_seed(seed).init for seed in range(agents)])
    return critic


def inputs(*leading: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    state = torch.randn(*leading, STATE, generator=generator)
    return state, torch.rand(*leading, ACTION, generator=generator) * 2 - 1


def test_the_agent_axis_is_invisible_for_one_agent() -> None:
    state, action = inputs(BATCH)
    actor, critic = make_actor(), make_critic()
    assert actor(state).shape == (BATCH, ACTION)
    assert [q.shape for q in critic(state, action)] == [(BATCH, 1)] * 2
    assert critic.Q1(state, action).shape == (BATCH, 1)


@pytest.mark.parametrize("agents", [1, 2, 4])
def test_several_agents_have_an_axis_of_their_own(agents: int) -> None:
    state, action = inputs(agents, BATCH)
    actor, critic = make_actor(agents), make_critic(agents)
    assert actor(state).shape == (agents, BATCH, ACTION)
    assert [q.shape for q in critic(state, action)] == [(agents, BATCH, 1)] * 2
    assert critic.Q1(state, action).shape == (agents, BATCH, 1)


def test_one_agent_gives_the_same_with_and_without_the_axis() -> None:
    state, action = inputs(BATCH)
    actor, critic = make_actor(), make_critic()
    assert torch.equal(actor(state), actor(state[None])[0])
    for without, with_axis in zip(
        critic(state, action), critic(state[None], action[None]), strict=True
    ):
        assert torch.equal(without, with_axis[0])


@pytest.mark.parametrize("agents", [1, 3])
def test_networks_compute_what_linear_layers_and_relu_compute(agents: int) -> None:
    state, action = inputs(agents, BATCH)
    actor, critic = make_actor(agents, np.array([0.5, 1.0, 2.0])), make_critic(agents)
    limit = torch.tensor([0.5, 1.0, 2.0])
    q1, q2 = critic(state, action)
    for agent in range(agents):
        expected = limit * torch.tanh(plain(actor, state[agent], agent))
        torch.testing.assert_close(actor(state)[agent], expected)
        pair = torch.cat([state[agent], action[agent]], dim=1)
        torch.testing.assert_close(q1[agent], plain(critic, pair, agent, 0))
        torch.testing.assert_close(q2[agent], plain(critic, pair, agent, 1))


def plain(network: StackedMLP, x: Tensor, *row: int) -> Tensor:
    """The same layers, written with `nn.functional.linear`."""
    layers = network.layers()
    for weight, bias in layers[:-1]:
        x = nn.functional.linear(x, weight[row].T, bias[row][0]).relu()
    weight, bias = layers[-1]
    return nn.functional.linear(x, weight[row].T, bias[row][0])


def test_each_critic_has_one_output_whatever_the_action_dimension() -> None:
    for action_dim in (1, 2, 6):
        critic = Critic(STATE, action_dim, HIDDEN)
        assert critic.layers()[-1][0].shape == (1, 2, HIDDEN[-1], 1)
        q1, q2 = critic(torch.zeros(BATCH, STATE), torch.zeros(BATCH, action_dim))
        assert q1.shape == q2.shape == (BATCH, 1)


def test_default_widths_are_those_of_the_walk_throughs() -> None:
    shapes = [tuple(weight.shape[-2:]) for weight, _ in td3.Actor(STATE, ACTION, 1.0).layers()]
    assert shapes == [(STATE, 400), (400, 300), (300, ACTION)]
    shapes = [tuple(weight.shape[-2:]) for weight, _ in td3.Critic(STATE, ACTION).layers()]
    assert shapes == [(STATE + ACTION, 400), (400, 300), (300, 1)]


@pytest.mark.parametrize("agents", [1, 3])
def test_twins_start_different_in_every_layer(agents: int) -> None:
    for layer in make_critic(agents).named_layers().values():
        for first, second in layer.detach():
            assert (first != second).all()


@pytest.mark.parametrize("twin", [0, 1])
def test_twins_share_no_layer(twin: int) -> None:
    critic, (state, action) = make_critic(), inputs(BATCH)
    before = [q.detach() for q in critic(state, action)]
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter[:, twin] += 1
    after = critic(state, action)
    assert torch.equal(after[1 - twin], before[1 - twin])
    assert not torch.allclose(after[twin], before[twin])
    after[twin].sum().backward()
    for parameter in critic.parameters():
        assert parameter.grad is not None
        assert parameter.grad[:, twin].abs().sum() > 0
        assert parameter.grad[:, 1 - twin].abs().sum() == 0


@pytest.mark.parametrize("agents", [1, 3])
def test_Q1_is_the_first_of_the_two_values(agents: int) -> None:
    critic, (state, action) = make_critic(agents), inputs(agents, BATCH)
    q1, q2 = critic(state, action)
    torch.testing.assert_close(critic.Q1(state, action), q1)
    assert not torch.allclose(critic.Q1(state, action), q2)


@pytest.mark.parametrize("name", ["actor", "critic"])
def test_a_target_starts_equal_and_is_a_copy_of_its_own(name: str) -> None:
    agent = TD3(STATE, ACTION, hidden_sizes=HIDDEN, seed=[0, 1])
    online, target = getattr(agent, name), getattr(agent, f"{name}_target")
    assert torch.equal(online.flat, target.flat)
    for mine, theirs in zip(online.parameters(), target.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    start = target.flat.clone()
    with torch.no_grad():
        for parameter in online.parameters():
            parameter += 1
    assert torch.equal(target.flat, start)
    moved = online.flat.clone()
    target.flat.zero_()
    assert torch.equal(online.flat, moved)
    assert not any(parameter.requires_grad for parameter in target.parameters())


@pytest.mark.parametrize("max_action", [0.3, 2.0, np.array([0.1, 1.0, 30.0])])
def test_actions_stay_within_max_action_in_every_dimension(max_action: float | np.ndarray) -> None:
    actor = make_actor(max_action=max_action)
    with torch.no_grad():
        actor.flat.mul_(100)
    limit = torch.as_tensor(max_action, dtype=torch.float32).expand(ACTION)
    actions = actor(inputs(500)[0])
    assert (actions.abs() <= limit).all()
    torch.testing.assert_close(actions.abs().amax(dim=0), limit)
    assert (actions.amin(dim=0) < 0).all()


@pytest.mark.parametrize("kind", ["actor", "critic"])
def test_gradients_of_one_agent_do_not_depend_on_another(kind: str) -> None:
    agents = 3
    state, action = inputs(agents, BATCH)

    def gradients(state: Tensor) -> list[Tensor]:
        if kind == "actor":
            network: StackedMLP = make_actor(agents)
            network(state).square().mean(dim=(1, 2)).sum().backward()
        else:
            network = make_critic(agents)
            q1, q2 = network(state, action)
            (q1.square() + q2.square()).mean(dim=(1, 2)).sum().backward()
        return [parameter.grad.clone() for parameter in network.parameters()]

    other = state.clone()
    other[1] = 1000 * state[1] + 5
    for before, after in zip(gradients(state), gradients(other), strict=True):
        assert torch.equal(before[0], after[0])
        assert torch.equal(before[2], after[2])
        assert not torch.equal(before[1], after[1])


@pytest.mark.parametrize("network", [make_actor(2), make_critic(2)], ids=["actor", "critic"])
def test_initial_weights_fill_the_bounds_of_a_linear_layer(network: StackedMLP) -> None:
    for weight, bias in network.layers():
        bound = 1 / math.sqrt(weight.shape[-2])
        for part in (weight, bias):
            assert part.abs().max() <= bound
        assert weight.abs().max() > 0.8 * bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.25)


def test_initial_weights_spread_as_those_of_torch() -> None:
    torch.manual_seed(0)
    wide = Actor(64, 32, hidden_sizes=(128,))
    wide.initialize([Streams.from_seed(0).init])
    theirs = [nn.Linear(64, 128), nn.Linear(128, 32)]
    for (weight, bias), layer in zip(wide.layers(), theirs, strict=True):
        assert weight.std().item() == pytest.approx(layer.weight.std().item(), rel=0.05)
        assert bias.std().item() == pytest.approx(layer.bias.std().item(), rel=0.3)
        assert weight.mean().item() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(
    "network", [td3.Actor(STATE, ACTION, 1.0), td3.Critic(STATE, ACTION)], ids=["actor", "critic"]
)
def test_a_network_made_by_its_public_name_can_learn(network: StackedMLP) -> None:
    assert all(parameter.abs().max() > 0 for parameter, _ in network.layers())


def test_agents_start_with_the_weights_that_they_would_have_alone() -> None:
    seeds = [3, 8, 3]
    together = TD3(STATE, ACTION, hidden_sizes=HIDDEN, seed=seeds)
    for agent, seed in enumerate(seeds):
        alone = TD3(STATE, ACTION, hidden_sizes=HIDDEN, seed=seed)
        assert torch.equal(together.actor.flat[agent], alone.actor.flat[0])
        assert torch.equal(together.critic.flat[agent], alone.critic.flat[0])
    for first, second in zip(together.actor.layers(), together.critic.layers(), strict=True):
        assert (first[0] != first[1]).all()
        assert (second[0] != second[1]).all()


@pytest.mark.parametrize("agent", [0, 1, 2])
def test_a_shared_network_is_the_same_memory(agent: int) -> None:
    state, action = inputs(3, BATCH)
    actor, critic = make_actor(3), make_critic(3)
    my_actor, my_critic = actor.member(agent), critic.member(agent)
    torch.testing.assert_close(my_actor(state[agent]), actor(state)[agent])
    torch.testing.assert_close(
        my_critic(state[agent], action[agent])[1], critic(state, action)[1][agent]
    )
    for whole, mine in ((actor, my_actor), (critic, my_critic)):
        before = whole.flat.clone()
        with torch.no_grad():
            for parameter in mine.parameters():
                parameter += 1
        changed = (whole.flat != before).flatten(1).any(dim=1)
        assert changed.tolist() == [number == agent for number in range(3)]
        assert torch.equal(mine.flat, whole.flat[agent : agent + 1])
        whole.flat.data.zero_()
        assert all(not parameter.any() for parameter in mine.parameters())


@pytest.mark.parametrize("network", [make_actor(2), make_critic(2)], ids=["actor", "critic"])
def test_a_deep_copy_has_memory_of_its_own(network: StackedMLP) -> None:
    twin = copy.deepcopy(network)
    before = network.flat.detach().clone()
    twin.flat.data.add_(1)
    assert torch.equal(network.flat, before)
    for (mine, _), (theirs, _) in zip(twin.layers(), network.layers(), strict=True):
        assert torch.equal(mine, theirs + 1)


def test_a_deep_copy_of_a_target_needs_no_gradient() -> None:
    target = TD3(STATE, ACTION, hidden_sizes=HIDDEN, seed=0).critic_target
    assert not any(parameter.requires_grad for parameter in copy.deepcopy(target).parameters())


def test_loading_a_state_dict_fills_the_layers() -> None:
    one, other = make_critic(2), make_critic(2)
    one.flat.data.mul_(3)
    other.load_state_dict(one.state_dict())
    for mine, theirs in zip(other.layers(), one.layers(), strict=True):
        assert torch.equal(mine[0], theirs[0])
        assert torch.equal(mine[1], theirs[1])


def test_a_network_can_change_its_kind() -> None:
    critic = make_critic(2)
    state, action = inputs(2, BATCH)
    before = critic(state, action)[0]
    critic.double()
    after = critic(state.double(), action.double())[0]
    torch.testing.assert_close(after, before.double())
    after.sum().backward()
    assert critic.flat.grad is not None
    assert critic.flat.grad.dtype == torch.float64


def test_layers_do_not_overlap_in_flat() -> None:
    critic = make_critic(2)
    critic.flat.data.zero_()
    views = list(critic.named_layers(critic.flat.data).values())
    for number, view in enumerate(views, start=1):
        view.fill_(number)
    for number, view in enumerate(views, start=1):
        assert (view == number).all()
    assert int((critic.flat != 0).sum()) == sum(view.numel() for view in views)
    assert list(critic.named_layers())[:2] == ["layer_1.weight", "layer_1.bias"]

"""Steps 4 to 15: the agent's interface, and which state one update changes."""

import copy
import dataclasses
import inspect
import io
import itertools
import re
import tokenize
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from support.agents import (
    ACTION,
    BATCH,
    HIDDEN,
    STATE,
    copied,
    make_agent,
    make_batch,
    make_buffer,
    same,
)

import td3
from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.errors import UserError
from td3.seeding import stream_state


def test_the_lines_of_the_walk_throughs_run() -> None:
    buffer = td3.ReplayBuffer(max_size=1_000_000)
    agent = td3.TD3(STATE, ACTION, 2.0)
    state = np.zeros(STATE)
    for _ in range(3):
        action = agent.select_action(state)
        buffer.add((state, state + 1, action, 1.0, False))
    states, next_states, actions, rewards, dones = buffer.sample(4)
    assert states.shape == next_states.shape == (4, STATE)
    assert actions.shape == (4, ACTION)
    assert rewards.shape == dones.shape == (4, 1)
    agent.train(
        buffer,
        2,
        batch_size=4,
        discount=0.99,
        tau=0.005,
        policy_noise=0.2,
        noise_clip=0.5,
        policy_freq=2,
    )
    s, a = torch.as_tensor(states), torch.as_tensor(actions)
    assert agent.critic.Q1(s, a).shape == (4, 1)
    assert agent.actor(s).shape == agent.actor_target(s).shape == (4, ACTION)
    assert [q.shape for q in agent.critic_target(s, a)] == [(4, 1)] * 2


def test_train_has_the_signature_of_the_walk_throughs() -> None:
    parameters = list(inspect.signature(td3.TD3.train).parameters.values())[1:]
    assert [p.kind for p in parameters] == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * 8
    assert [p.default for p in parameters[:2]] == [inspect.Parameter.empty] * 2
    assert {p.name: p.default for p in parameters[2:]} == {
        "batch_size": 100,
        "discount": 0.99,
        "tau": 0.005,
        "policy_noise": 0.2,
        "noise_clip": 0.5,
        "policy_freq": 2,
    }
    settings = dataclasses.asdict(UpdateSettings())
    assert settings == {p.name: p.default for p in parameters[3:]}


def test_networks_are_400_300_and_adam_1e_3_unless_told_otherwise() -> None:
    agent = td3.TD3(STATE, ACTION, 1.0)
    for network in (agent.actor, agent.actor_target, agent.critic, agent.critic_target):
        assert [weight.shape[-1] for weight, _ in network.layers()[:2]] == [400, 300]
    for optimizer in (agent.actor_optimizer, agent.critic_optimizer):
        assert isinstance(optimizer, torch.optim.Optimizer)
        assert optimizer.param_groups[0]["lr"] == 1e-3
        assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)


def test_the_first_step_of_adam_has_the_size_of_the_learning_rate() -> None:
    agent = make_agent(actor_learning_rate=0.01, critic_learning_rate=0.003)
    before = copied(agent)
    agent.update(*make_batch())
    for name, rate in (("actor", 0.01), ("critic", 0.003)):
        last = f"{name}.layer_3.bias"
        moved = (agent.tensors()[last] - before[last]).abs()
        torch.testing.assert_close(moved, torch.full_like(moved, rate), rtol=1e-3, atol=0)


@pytest.mark.parametrize("state", [np.ones(STATE), [1.0] * STATE, np.ones((1, STATE))])
def test_an_action_is_flat_numpy_and_that_of_the_actor(state: np.ndarray) -> None:
    agent = make_agent(max_action=np.array([0.5, 1.0, 2.0]))
    action = agent.select_action(state)
    assert isinstance(action, np.ndarray)
    assert action.shape == (ACTION,)
    expected = agent.actor(torch.ones(1, STATE))[0].detach().numpy()
    np.testing.assert_array_equal(action, expected)


def test_several_agents_select_a_row_each() -> None:
    agent, states = make_agent([0, 1]), np.arange(2.0 * STATE).reshape(2, STATE)
    actions = agent.select_action(states)
    assert actions.shape == (2, ACTION)
    for number in range(2):
        np.testing.assert_allclose(
            actions[number], agent.member(number).select_action(states[number]), rtol=1e-6
        )


TINY: dict[str, Any] = {
    "recipe": "quick",
    "steps": 20,
    "loop": {"random_steps": 10},
    "evaluation": {"episodes": 1},
    "agent": {"hidden_sizes": [8], "batch_size": 4},
}


def test_training_and_loading_a_policy_take_one_line_each(tmp_path: Path) -> None:
    run = td3.train("Pendulum-v1", seeds=2, run=tmp_path / "run", **TINY)
    action = td3.load_policy(run)(np.array([1.0, 0.0, 0.0], dtype=np.float32))
    assert action.shape == (1,)
    assert abs(action[0]) <= 2


def test_training_from_python_shows_how_it_goes_unless_it_is_to_be_quiet(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    td3.train("Pendulum-v1", run=tmp_path / "printed", **TINY)
    printed = capfd.readouterr()
    assert f"Run folder: {tmp_path / 'printed'}" in printed.err
    assert "step        20  evaluation -" in printed.err
    td3.train("Pendulum-v1", run=tmp_path / "quiet", quiet=True, **TINY)
    assert (printed.out, *capfd.readouterr()) == ("", "", "")


def test_a_policy_that_never_acts_is_remarked_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    never = TINY | {"loop": {"random_steps": 20, "update": "episode"}}
    td3.train("Pendulum-v1", run=tmp_path / "never", **never)
    remark = "All 20 steps are random (loop.random_steps): the policy never acts."
    assert f"! {remark}" in capfd.readouterr().err
    assert remark in (tmp_path / "never" / "events.jsonl").read_text()


def test_an_environment_is_named_not_given() -> None:
    with pytest.raises(UserError, match="a TimeLimit object, but a run makes its environments"):
        td3.train(gym.make("Pendulum-v1"))  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_agent() -> None:
    agents = [make_agent(3), make_agent(3)]
    for agent in agents:
        agent.train(make_buffer([3]), 20, batch_size=BATCH)
    assert same(agents[0].tensors(), agents[1].tensors())


def test_another_seed_differs_from_the_first_weight_on() -> None:
    one, other = make_agent(3), make_agent(4)
    for name in ("actor", "critic"):
        mine, theirs = getattr(one, name).named_layers(), getattr(other, name).named_layers()
        assert all((mine[key] != theirs[key]).all() for key in mine)
    assert not torch.equal(one.draw_noise(4), other.draw_noise(4))


def test_global_seed_governs_an_agent_without_one() -> None:
    agents = []
    for seed in (5, 5, 6):
        np.random.seed(seed)  # noqa: NPY002 - what the walk-throughs call
        agents.append(TD3(STATE, ACTION, hidden_sizes=HIDDEN))
    assert same(agents[0].tensors(), agents[1].tensors())
    assert torch.equal(agents[0].draw_noise(4), agents[1].draw_noise(4))
    assert not torch.equal(agents[0].actor.flat, agents[2].actor.flat)


def test_an_update_draws_nothing() -> None:
    agent, (batch, noise) = make_agent([0, 1]), make_batch(agents=2)
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
    streams = [copy.deepcopy(stream_state(stream)) for stream in agent.smooth]
    for _ in range(4):
        agent.update(batch, noise)
    assert torch.equal(torch.get_rng_state(), torch_state)
    for before, after in zip(numpy_state, np.random.get_state(), strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(before, after)
    assert [stream_state(stream) for stream in agent.smooth] == streams


def test_training_moves_the_agents_own_streams_only() -> None:
    agent, buffer = make_agent(), make_buffer([0])
    torch_state = torch.get_rng_state()
    before = [copy.deepcopy(stream_state(s)) for s in (agent.smooth[0], buffer.streams[0])]
    agent.train(buffer, 3, batch_size=BATCH)
    after = [stream_state(stream) for stream in (agent.smooth[0], buffer.streams[0])]
    assert all(then != now for then, now in zip(before, after, strict=True))
    assert torch.equal(torch.get_rng_state(), torch_state)


def test_noise_of_agent_k_is_what_it_draws_alone() -> None:
    together = make_agent([3, 5])
    noise = [together.draw_noise(BATCH) for _ in range(2)]
    for agent, seed in enumerate((3, 5)):
        alone = make_agent(seed)
        for drawn in noise:
            assert torch.equal(drawn[agent], alone.draw_noise(BATCH)[0])


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("seeds", [[0], [0, 1, 2]])
def test_a_round_trip_restores_targets_moments_and_counts(
    tmp_path: Path, seeds: list[int], normalize: bool
) -> None:
    agent = make_agent(seeds, normalize_observations=normalize)
    if agent.normalizer:
        agent.normalizer.observe(
            np.repeat(np.arange(len(seeds)), 9),
            np.random.default_rng(0).normal(3, 2, (9 * len(seeds), STATE)),
        )
    agent.train(make_buffer(seeds), 7, batch_size=BATCH)
    saved = copied(agent)
    path = agent.save("mine", tmp_path)
    assert path == tmp_path / "mine.safetensors"

    other = make_agent([seed + 10 for seed in seeds], normalize_observations=normalize)
    assert not same(other.tensors(), saved)
    other.load("mine", tmp_path)
    assert same(other.tensors(), saved)
    assert not torch.equal(other.critic_target.flat, other.critic.flat)
    assert not torch.equal(other.actor_target.flat, other.actor.flat)
    assert other.critic_optimizer.mean.any()
    assert other.critic_optimizer.count.tolist() == [7] * len(seeds)
    assert other.updates.tolist() == [7] * len(seeds)
    for number in range(5):  # both continue with the same numbers, actor steps included
        for each in (agent, other):
            each.update(*make_batch(len(seeds), seed=number))
    assert same(other.tensors(), agent.tensors())


def test_loading_replaces_what_was_learned_since(tmp_path: Path) -> None:
    agent, buffer = make_agent(), make_buffer([0])
    agent.train(buffer, 3, batch_size=BATCH)
    agent.save("mine", tmp_path)
    saved, action = copied(agent), agent.select_action(np.ones(STATE))
    agent.train(buffer, 10, batch_size=BATCH)
    assert not np.array_equal(agent.select_action(np.ones(STATE)), action)
    agent.load("mine", tmp_path)
    assert same(agent.tensors(), saved)
    np.testing.assert_array_equal(agent.select_action(np.ones(STATE)), action)


@pytest.mark.parametrize(
    "other",
    [
        TD3(STATE + 1, ACTION, hidden_sizes=HIDDEN, seed=0),
        TD3(STATE, ACTION - 1, hidden_sizes=HIDDEN, seed=0),
        TD3(STATE, ACTION, hidden_sizes=(12, 16), seed=0),
        TD3(STATE, ACTION, hidden_sizes=(16,), seed=0),
        TD3(STATE, ACTION, hidden_sizes=HIDDEN, seed=[0, 1]),
        TD3(STATE, ACTION, hidden_sizes=HIDDEN, seed=0, normalize_observations=True),
    ],
    ids=["state", "action", "widths", "layers", "agents", "normalizer"],
)
def test_an_agent_of_another_shape_is_refused_and_changes_nothing(
    tmp_path: Path, other: TD3
) -> None:
    make_agent().save("mine", tmp_path)
    before = copied(other)
    with pytest.raises(ValueError, match="another shape"):
        other.load("mine", tmp_path)
    assert same(other.tensors(), before)


def test_an_agent_of_a_newer_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("td3.algorithm.state.FORMAT", "2")
    make_agent().save("mine", tmp_path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="has format 2, and this td3 reads format 1"):
        make_agent().load("mine", tmp_path)


def test_a_deep_copy_trains_like_the_original_and_apart_from_it() -> None:
    agent = make_agent()
    agent.train(make_buffer([0]), 3, batch_size=BATCH)
    twin = copy.deepcopy(agent)
    before = copied(agent)
    twin.update(*make_batch())
    assert same(agent.tensors(), before)
    agent.update(*make_batch())
    assert same(agent.tensors(), twin.tensors())


def test_an_optimizers_state_dict_carries_its_moments() -> None:
    agent, other = make_agent(0), make_agent(0)
    agent.train(make_buffer([0]), 3, batch_size=BATCH)
    for name in ("actor", "critic"):
        mine, theirs = getattr(agent, f"{name}_optimizer"), getattr(other, f"{name}_optimizer")
        theirs.load_state_dict(mine.state_dict())
        assert torch.equal(mine.mean, theirs.mean)
        assert torch.equal(mine.square, theirs.square)
        assert torch.equal(mine.count, theirs.count)


def test_agent_k_of_a_population_equals_it_alone_after_100_updates() -> None:
    tolerance = 1e-6  # float32; measured 6e-8
    seeds = [3, 5, 8]
    together = make_agent(seeds, max_action=2.0)
    together.train(make_buffer(seeds), 100, batch_size=BATCH)
    for agent, seed in enumerate(seeds):
        alone = make_agent(seed, max_action=2.0)
        alone.train(make_buffer([seed]), 100, batch_size=BATCH)
        for name, tensor in alone.tensors().items():
            torch.testing.assert_close(
                together.tensors()[name][agent], tensor[0], rtol=0, atol=tolerance
            )


@pytest.mark.parametrize("number", [0, 1, 2])
def test_training_a_member_leaves_the_others_bit_identical(number: int) -> None:
    agent, buffer = make_agent([0, 1, 2]), make_buffer([0, 1, 2])
    agent.train(buffer, 2, batch_size=BATCH)
    before = copied(agent)
    agent.member(number).train(buffer.member(number), 3, batch_size=BATCH)
    for name, tensor in agent.tensors().items():
        for other in range(3):
            same = other != number or name == "max_action"
            assert torch.equal(tensor[other], before[name][other]) == same


def test_a_member_trains_as_it_would_alone() -> None:
    agent, buffer = make_agent([3, 5]), make_buffer([3, 5])
    alone = make_agent(5)
    agent.member(1).train(buffer.member(1), 20, batch_size=BATCH)
    alone.train(make_buffer([5]), 20, batch_size=BATCH)
    for name, tensor in alone.tensors().items():
        torch.testing.assert_close(agent.tensors()[name][1], tensor[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("part", [0, 1, 2, 3])
def test_nan_in_one_members_batch_leaves_the_others_finite_and_identical(part: int) -> None:
    healthy, diverged = make_agent([0, 1, 2]), make_agent([0, 1, 2])
    batch, noise = make_batch(agents=3)
    parts = [tensor.clone() for tensor in batch]
    parts[part][1, 0, 0] = float("nan")
    for _ in range(3):
        healthy.update(batch, noise)
        diverged.update(Batch(*parts), noise)
    assert not diverged.critic.flat[1].isfinite().all()
    for name, tensor in diverged.tensors().items():
        for other in (0, 2):
            assert tensor[other].isfinite().all()
            assert torch.equal(tensor[other], healthy.tensors()[name][other])


def test_diagnostics_are_one_number_per_agent() -> None:
    agent, (batch, noise) = make_agent([0, 1, 2]), make_batch(agents=3)
    seen = agent.update(batch, noise)
    for agent_number in range(3):
        alone = make_agent(agent_number)
        one = Batch(*(part[agent_number : agent_number + 1] for part in batch))
        expected = alone.update(one, noise[agent_number : agent_number + 1])
        assert seen.priorities is None
        for mine, theirs in zip(seen[:3], expected[:3], strict=True):
            assert mine.shape == (3,)
            torch.testing.assert_close(mine[agent_number], theirs[0])


def test_fifteen_steps_are_marked_in_order() -> None:
    marks: list[int] = []
    for name in ("replay", "networks", "agent"):
        source = (Path(td3.__file__).parent / "algorithm" / f"{name}.py").read_text(
            encoding="utf-8"
        )
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                marks += [int(number) for number in re.findall(r"\bStep (\d+):", token.string)]
    first = list(dict.fromkeys(marks))
    assert first == list(range(1, 16))


def test_print_shows_the_layers_of_a_network() -> None:
    text = repr(make_agent().actor)
    assert f"layer_1.weight: (1, {STATE}, {HIDDEN[0]})" in text
    assert f"layer_3.bias: (1, 1, {ACTION})" in text


def test_parameters_counts_weights_and_biases_only() -> None:
    agent = make_agent()
    sizes = (STATE, *HIDDEN, ACTION)
    expected = sum(inputs * outputs + outputs for inputs, outputs in itertools.pairwise(sizes))
    assert sum(p.numel() for p in agent.actor.parameters()) == expected


def test_layers_are_reachable_by_name() -> None:
    actor = make_agent().actor
    weight = actor["layer_2.weight"]
    assert weight.shape == (1, *HIDDEN)
    with torch.no_grad():
        weight.zero_()
    assert not actor.layers()[1][0].any()
    with pytest.raises(KeyError, match=r"no 'layer_9.weight'; there are layer_1.weight, "):
        actor["layer_9.weight"]


def test_select_action_of_a_wrong_state_size_names_both_sizes() -> None:
    with pytest.raises(ValueError, match=rf"a state of {STATE} numbers, got an array of \(4,\)"):
        make_agent().select_action(np.zeros(4))
    with pytest.raises(ValueError, match=rf"{STATE} numbers for each of 2 agents"):
        make_agent([0, 1]).select_action(np.zeros(STATE))


@pytest.mark.parametrize(("state", "action", "name"), [(4, ACTION, "state"), (STATE, 2, "action")])
def test_networks_of_a_wrong_input_size_name_both_sizes(state: int, action: int, name: str) -> None:
    agent = make_agent()
    states, actions = torch.zeros(7, state), torch.zeros(7, action)
    for critic in (agent.critic, agent.critic.Q1):
        with pytest.raises(ValueError, match=f"expected {name}s of"):
            critic(states, actions)
    if name == "state":
        with pytest.raises(ValueError, match="expected states of 5 numbers"):
            agent.actor(states)


def test_restore_names_a_missing_tensor() -> None:
    agent = make_agent()
    tensors = copied(agent)
    del tensors["critic.layer_1.weight"]
    with pytest.raises(ValueError, match=r"another shape: critic.layer_1.weight is missing"):
        agent.restore(tensors)


class MeanOverAgents(TD3):
    """A common mistake."""

    def critic_loss(self, values: Any, target_q: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.mse_loss(values[0], target_q)


@pytest.mark.parametrize("agents", [1, 2])
def test_update_with_a_loss_over_all_agents_is_refused(agents: int) -> None:
    agent = MeanOverAgents(STATE, ACTION, hidden_sizes=(8, 8), seed=range(agents))
    batch = Batch(*(torch.zeros(agents, 4, width) for width in (STATE, STATE, ACTION, 1, 1)))
    with pytest.raises(UserError, match=rf"shape \({agents},\), got \(\); take the mean"):
        agent.update(batch, agent.draw_noise(4))

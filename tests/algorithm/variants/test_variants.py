"""The built-in variants compute what their docstrings say."""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import td3
import td3.testing.variant
from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.algorithm.variants.ensemble import EnsembleSettings, EnsembleTD3
from td3.algorithm.variants.huber import HuberSettings, HuberTD3
from td3.algorithm.variants.lap import LAP, LAPSettings
from td3.algorithm.variants.layer_norm import LayerNormTD3
from td3.config.variants import BUILT_IN, load_variant
from td3.seeding import Streams

STATE, ACTION, SIZE = 3, 2, 8
QUICK: dict[str, dict[str, Any]] = {
    "ensemble": {"critics": 4},
    "flash": {"critic_width": 32, "actor_width": 16, "blocks": 1, "bins": 21},
}
"""Settings of variants whose defaults take long."""
SMALL: dict[str, Any] = {"hidden_sizes": (8, 8), "dtype": torch.float64}
VALUES = torch.tensor([[[0.5], [2.0], [5.0]]], dtype=torch.float64)
OTHER_VALUES = torch.tensor([[[1.5], [0.5], [0.0]]], dtype=torch.float64)
TARGET = torch.ones_like(VALUES)  # errors 0.5, 1, 4 and 0.5, 0.5, 1


def make(kind: type[TD3], seeds: list[int], **more: Any) -> TD3:
    return kind(STATE, ACTION, seed=seeds, **SMALL, **more)


def random_batch(agents: int) -> Batch:
    generator = torch.Generator().manual_seed(0)

    def draw(width: int) -> Tensor:
        return torch.randn(agents, SIZE, width, generator=generator, dtype=torch.float64)

    return Batch(draw(STATE), draw(STATE), draw(ACTION).tanh(), draw(1), (draw(1) > 1).double())


@pytest.mark.parametrize("name", BUILT_IN)
def test_builtin_variant_passes_check_variant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "lean":  # its critics start as flat distributions, far from any reward
        monkeypatch.setattr(td3.testing.variant, "LEARNING_UPDATES", 4000)
    report = td3.testing.check_variant(load_variant(name), QUICK.get(name, {}))
    assert report.failed == []
    assert len(report.passed) >= 5
    assert report.notes == [], "each built-in variant runs in the fast modes"


@pytest.mark.parametrize("name", ["flash", "lean"])
def test_variant_without_its_ingredients_passes_check_variant(name: str) -> None:
    kind = load_variant(name)
    switches = {own.name: False for own in fields(kind.Settings) if own.default is True}
    assert len(switches) >= 3
    report = td3.testing.check_variant(kind, QUICK.get(name, {}) | switches, learns=False)
    assert report.failed == []
    assert report.notes == []


@pytest.mark.parametrize("name", sorted(BUILT_IN.keys() - {"flash", "lean"}))
def test_builtin_variant_is_short_and_names_the_steps_that_it_replaces(name: str) -> None:
    kind = load_variant(name)
    assert (kind.__doc__ or "").startswith("Replaces step")
    lines = Path(inspect.getfile(kind)).read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) <= 60


def test_huber_with_large_delta_equals_td3() -> None:
    plain = make(TD3, [0, 1])
    huber = make(HuberTD3, [0, 1], variant=HuberSettings(name="huber", delta=1e9))
    batch = random_batch(2)
    for _ in range(4):
        noise = plain.draw_noise(SIZE)
        plain.update(batch, noise)
        huber.update(batch, noise)
    expected = huber.tensors()
    for name, tensor in plain.tensors().items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-9, atol=1e-12, msg=name)


def test_huber_loss_by_hand() -> None:
    agent = make(HuberTD3, [0], variant=HuberSettings(name="huber", delta=2.0))
    loss = agent.critic_loss([VALUES], TARGET)
    assert loss.tolist() == [pytest.approx((0.25 + 1 + 2 * (2 * 4 - 2)) / 3)]


def test_huber_delta_of_each_agent_counts_for_that_agent() -> None:
    deltas = torch.tensor([0.5, 1.0], dtype=torch.float64)
    settings = HuberSettings(name="huber", delta=deltas)  # type: ignore[arg-type]
    agents = make(HuberTD3, [0, 1], variant=settings)
    found = agents.critic_loss([VALUES.expand(2, 3, 1)], TARGET.expand(2, 3, 1))
    for agent, delta in enumerate(deltas.tolist()):
        alone = make(HuberTD3, [0], variant=HuberSettings(name="huber", delta=delta))
        torch.testing.assert_close(found[agent : agent + 1], alone.critic_loss([VALUES], TARGET))


def test_layer_norm_critic_normalises_each_hidden_layer_before_relu() -> None:
    agent = make(LayerNormTD3, [0])
    batch = random_batch(1)
    found = agent.critic(batch.state, batch.action)
    assert len(found) == 2
    layers = agent.critic.named_layers(agent.critic.flat[0])
    for critic, values in enumerate(found):
        x = torch.cat([batch.state[0], batch.action[0]], dim=1)
        for number in (1, 2, 3):
            weight = layers[f"layer_{number}.weight"][critic]
            x = F.linear(x, weight.T, layers[f"layer_{number}.bias"][critic, 0])
            if number < 3:
                x = F.relu(F.layer_norm(x, (8,)))
        torch.testing.assert_close(values[0], x)
    torch.testing.assert_close(agent.critic.Q1(batch.state, batch.action), found[0])


@pytest.mark.parametrize(("critics", "subset"), [(5, 2), (5, 1), (3, 3), (2, 7)])
def test_ensemble_target_is_the_minimum_of_the_chosen_critics(critics: int, subset: int) -> None:
    settings = EnsembleSettings(name="ensemble", critics=critics, subset=subset)
    agents = make(EnsembleTD3, [0, 1, 2], variant=settings)
    batch, noise = random_batch(3), agents.draw_noise(SIZE)
    is_chosen = noise.own.T == 0
    assert is_chosen.sum(dim=0).tolist() == [min(subset, critics)] * 3
    next_action = agents.target_action(batch.next_state, noise, UpdateSettings())
    values = agents.critic_target(batch.next_state, next_action)
    assert len(values) == critics
    for agent in range(3):
        own = [values[k][agent] for k in range(critics) if is_chosen[k, agent]]
        smallest = torch.stack(own).amin(dim=0)
        expected = batch.reward[agent] + (1 - batch.done[agent]) * 0.99 * smallest
        found = agents.target_q(batch, noise, UpdateSettings())[agent]
        torch.testing.assert_close(found, expected)


def test_ensemble_subsets_differ_between_updates_and_agents() -> None:
    settings = EnsembleSettings(name="ensemble", critics=6, subset=2)
    agents = make(EnsembleTD3, [0, 1], variant=settings)
    masks = torch.stack([agents.draw_noise(1).own == 0 for _ in range(200)])
    assert len({tuple(row) for row in masks[:, 0].tolist()}) == 15  # each pair of six
    assert not torch.equal(masks[:, 0], masks[:, 1])
    share = masks.double().mean(dim=0)
    torch.testing.assert_close(share, torch.full_like(share, 1 / 3), atol=0.12, rtol=0)


def test_ensemble_draws_its_subset_before_the_noise_of_each_update() -> None:
    """The order of 0.1, so that its runs continue with the same numbers."""
    agent = make(EnsembleTD3, [3], variant=EnsembleSettings(name="ensemble", critics=6, subset=2))
    stream = Streams.from_seed(3).smooth
    for _ in range(3):
        noise, chosen = agent.draw_noise(4), stream.permutation(6)[:2]
        assert set(torch.nonzero(noise.own[0] == 0).flatten().tolist()) == set(chosen.tolist())
        drawn = stream.standard_normal((4, ACTION), dtype=np.float32)
        assert (noise.smoothing[0].numpy() == drawn).all()


def test_ensemble_of_two_gives_the_target_of_td3() -> None:
    settings = EnsembleSettings(name="ensemble", critics=2, subset=2)
    agents, plain = make(EnsembleTD3, [3, 4], variant=settings), make(TD3, [3, 4])
    batch, noise = random_batch(2), agents.draw_noise(SIZE)
    found = agents.target_q(batch, noise, UpdateSettings())
    assert torch.equal(found, plain.target_q(batch, noise.smoothing, UpdateSettings()))


def test_ensemble_actor_climbs_the_mean_of_all_critics() -> None:
    settings = EnsembleSettings(name="ensemble", critics=3, subset=2)
    agent = make(EnsembleTD3, [0], variant=settings)
    state = random_batch(1).state
    values = agent.critic(state, agent.actor(state))
    expected = -np.mean([value.detach().numpy() for value in values])
    assert agent.actor_loss(state).tolist() == [pytest.approx(expected)]


def test_lap_loss_and_priorities_by_hand() -> None:
    agent = make(LAP, [0], variant=LAPSettings(name="lap", alpha=0.5))
    loss = agent.critic_loss([VALUES, OTHER_VALUES], TARGET)
    by_hand = (0.5 * 0.25 + 1 + 4) / 3 + (0.5 * 0.25 + 0.5 * 0.25 + 1) / 3
    assert loss.tolist() == [pytest.approx(by_hand)]
    # The larger error of both critics, at least 1, to the power of alpha.
    assert agent.priorities([VALUES, OTHER_VALUES], TARGET).tolist() == [[1.0, 1.0, 2.0]]


def test_lap_update_sets_the_priorities_of_the_sampled_transitions() -> None:
    agents = make(LAP, [0, 1])
    replay = LAP.replay_class(50, seed=[0, 1], dtype=torch.float64)
    rows = np.random.default_rng(0).normal(size=(2, 20, 2 * STATE + ACTION + 2))
    replay.allocate(STATE, ACTION)
    for agent in range(2):
        for row in 5 * rows[agent]:
            replay.append(agent, row)  # type: ignore[attr-defined]
    (found,) = agents.train(replay, 1, batch_size=4)
    assert found.priorities is not None
    assert found.priorities.shape == (2, 4)
    weights = replay.tensors()["priorities"]
    stored = (weights[:, :20] != 1).sum(dim=1)
    assert (stored > 0).all()
    for agent in range(2):
        changed = weights[agent][weights[agent] > 1]
        own = found.priorities[agent].float()
        assert torch.isin(changed, own).all()

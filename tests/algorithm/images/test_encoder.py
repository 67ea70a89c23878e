"""The image encoder, alone and as part of the agent."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from td3.algorithm.agent import TD3
from td3.algorithm.images.encoder import Encoder
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.environments.observations import observation_layout
from td3.layout import layout_size, stack_layout
from td3.seeding import Streams

GREY = spaces.Box(0, 255, (20, 18), np.uint8)
COLOUR = spaces.Box(0, 255, (20, 18, 3), np.uint8)
FIRST = spaces.Box(0, 255, (3, 20, 18), np.uint8)
BOX = spaces.Box(-1, 1, (2,))
BOTH = spaces.Dict(a=BOX, b=GREY)
DOUBLE = torch.float64


def layout_of(space: spaces.Space[Any], stack: int = 1) -> dict[str, Any]:
    return stack_layout(observation_layout(space, "Some-v0"), stack)


def states(layout: dict[str, Any], *leading: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (*leading, layout_size(layout)), generator=generator).to(DOUBLE)


def make_encoder(layout: dict[str, Any], agents: int = 1, **more: Any) -> Encoder:
    streams = [Streams.from_seed(seed).init for seed in range(agents)]
    return Encoder(layout, [4, 5], 6, agents=agents, streams=streams, dtype=DOUBLE, **more)


@pytest.mark.parametrize("space", [GREY, COLOUR, FIRST])
def test_encoder_equals_plain_pytorch_layers(space: spaces.Box) -> None:
    layout = layout_of(space, stack=2)
    encoder, x = make_encoder(layout), states(layout, 1, 7)
    (one, one_bias), (two, two_bias), (three, three_bias) = encoder.layers()
    shaped = x[0].view(7, 2, *space.shape)
    if space is COLOUR:
        shaped = shaped.movedim(-1, 2)
    pixels = shaped.reshape(7, -1, 20, 18) / 255 - 0.5
    seen = torch.conv2d(pixels, one[0], one_bias[0], stride=2).relu()
    seen = torch.conv2d(seen, two[0], two_bias[0]).relu().flatten(1)
    expected = nn.functional.layer_norm(seen @ three[0] + three_bias[0], [6]).tanh()
    torch.testing.assert_close(encoder(x)[0], expected)


def test_encoder_with_images_and_numbers_passes_numbers_unchanged() -> None:
    layout = layout_of(BOTH, stack=3)
    encoder, x = make_encoder(layout), states(layout, 1, 4)
    assert encoder.outputs == 3 * 2 + 6
    single = x.view(1, 4, 3, -1)
    assert torch.equal(encoder(x)[..., :6], single[..., :2].flatten(2))


@pytest.mark.parametrize("side", [1, 2, 3, 5, 8])
def test_encoder_small_image_uses_fewer_convolutions(side: int) -> None:
    space = spaces.Box(0, 255, (side, max(side, 2), 3), np.uint8)
    layout = layout_of(space)
    assert make_encoder(layout)(states(layout, 1, 2)).shape == (1, 2, 6)


def agents_with(layout: dict[str, Any], seeds: list[int]) -> TD3:
    return TD3(
        layout_size(layout),
        2,
        hidden_sizes=(16, 16),
        seed=seeds,
        layout=layout,
        channels=(4, 5),
        features=6,
        dtype=DOUBLE,
    )


def batch_of(layout: dict[str, Any], agents: int) -> tuple[Batch, Tensor]:
    generator = torch.Generator().manual_seed(1)
    every = states(layout, agents, 2 * 8)
    action = torch.rand(agents, 8, 2, generator=generator, dtype=DOUBLE) * 2 - 1
    reward = torch.randn(agents, 8, 1, generator=generator, dtype=DOUBLE)
    noise = torch.randn(agents, 8, 2, generator=generator, dtype=DOUBLE)
    return Batch(every[:, :8], every[:, 8:], action, reward, torch.zeros_like(reward)), noise


def test_update_population_with_images_equals_each_agent_alone() -> None:
    layout = layout_of(BOTH, stack=2)
    together = agents_with(layout, [3, 4, 5])
    batch, noise = batch_of(layout, 3)
    for _ in range(20):
        together.update(batch, noise)
    for k, seed in enumerate([3, 4, 5]):
        alone = agents_with(layout, [seed])
        own = Batch(*(part[k : k + 1] for part in batch))
        for _ in range(20):
            alone.update(own, noise[k : k + 1])
        mine, theirs = together.member(k).tensors(), alone.tensors()
        assert mine.keys() == theirs.keys()
        for name in mine:
            torch.testing.assert_close(mine[name], theirs[name], rtol=1e-9, atol=1e-12)


def test_update_trains_encoder_by_critic_loss_only() -> None:
    """The encoder is the same after an update with and without the actor step."""
    layout = layout_of(GREY)
    batch, noise = batch_of(layout, 1)
    found = []
    for updates in (0, 1):  # with and without the delayed steps
        agent = agents_with(layout, [0])
        assert agent.encoder is not None
        agent.updates[:] = updates
        before, actor = agent.encoder.flat.detach().clone(), agent.actor.flat.detach().clone()
        agent.update(batch, noise, UpdateSettings(tau=0.0))  # the same targets afterwards
        assert not torch.equal(before, agent.encoder.flat)
        assert torch.equal(actor, agent.actor.flat) == bool(updates)
        agent.update(batch, noise, UpdateSettings(tau=0.0))  # after old gradients
        found.append(agent.encoder.flat.detach().clone())
    first, other = found
    assert torch.equal(first, other)


def test_update_moves_encoder_target_on_delayed_updates_only() -> None:
    layout = layout_of(GREY)
    agent = agents_with(layout, [0])
    assert agent.encoder is not None
    batch, noise = batch_of(layout, 1)
    before = agent.encoder_target.flat.clone()
    agent.update(batch, noise, UpdateSettings(tau=0.25))
    expected = before.lerp(agent.encoder.flat.detach(), 0.25)
    torch.testing.assert_close(agent.encoder_target.flat, expected)
    held = agent.encoder_target.flat.clone()
    agent.update(batch, noise, UpdateSettings(tau=0.25))  # without the delayed steps
    assert torch.equal(agent.encoder_target.flat, held)


def test_load_saved_agent_with_images_acts_the_same(tmp_path: Any) -> None:
    layout = layout_of(BOTH)
    agent, other = agents_with(layout, [0]), agents_with(layout, [1])
    agent.save("agent", tmp_path)
    x = states(layout, 1, 3)
    assert not torch.equal(agent.act(x), other.act(x))
    other.load("agent", tmp_path)
    assert torch.equal(agent.act(x), other.act(x))

"""The variant flash computes what PyTorch's own modules compute, for each agent alone."""

from typing import Any

import pytest
import torch
from torch import Tensor

import td3
from td3.algorithm.categorical import Bins
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.algorithm.variants.flash import FlashSettings, FlashTD3
from td3.config import load_recipe
from td3.errors import UserError
from tests.support.flash_reference import Network, Reference

STATE, ACTION, SIZE, RATE = 5, 2, 16, 1e-3
SMALL: dict[str, Any] = {"critic_width": 8, "actor_width": 6, "blocks": 2, "bins": 11}
SETTINGS = UpdateSettings(tau=0.1, policy_noise=0.15, noise_clip=0.3)


def make(seeds: list[int], **own: Any) -> FlashTD3:
    return FlashTD3(
        STATE,
        ACTION,
        seed=seeds,
        dtype=torch.float64,
        actor_learning_rate=RATE,
        critic_learning_rate=RATE,
        variant=FlashSettings(name="flash", **(SMALL | own)),
    )


def random_batch(agents: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def draw(width: int) -> Tensor:
        return torch.randn(agents, SIZE, width, generator=generator, dtype=torch.float64)

    return Batch(draw(STATE), draw(STATE), draw(ACTION).tanh(), draw(1), (draw(1) > 1).double())


def networks(agent: FlashTD3, kind: str, member: int, target: bool = False) -> list[Network]:
    """References with the numbers of one agent's actor or critics."""
    own = agent.trained[kind].target if target else agent.trained[kind].online
    inputs, outputs = own.shapes["input.weight"][0], own.shapes["output.weight"][1]
    layers = own.named_layers(own.flat[member].view(-1, own.flat.shape[-1]))
    shape = len(layers["output.weight"]), 1, own.running_mean.shape[-1]
    means = own.running_mean[member].reshape(shape)
    variances = own.running_variance[member].reshape(shape)
    return [
        Network(inputs, outputs, own.body)
        .double()
        .copy_from({name: layer[k] for name, layer in layers.items()}, means[k], variances[k])
        for k in range(len(means))
    ]


def reference(agent: FlashTD3, member: int) -> Reference:
    (actor,), critics = networks(agent, "actor", member), networks(agent, "critic", member)
    bins = agent.bins
    values = bins.values[member, 0] if isinstance(bins, Bins) else None
    return Reference(agent.variant, actor, critics, values, RATE)


def assert_same(found: list[Network], expected: list[Network]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        for name, numbers in theirs.numbers().items():
            torch.testing.assert_close(mine.numbers()[name], numbers, rtol=1e-7, atol=1e-9)
        for one, other in zip(mine.statistics(), theirs.statistics(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"joint_batch": False},
        {"target_actor": False, "actor_follows": "mean"},
        {"actor_follows": "first", "saturation_penalty": 0.01},
        {"unit_weights": False},
        {"blocks": 0, "limit": 2.0},
        {"categorical": False},
        {"categorical": False, "pessimistic": False, "joint_batch": False},
        {"pessimistic": False, "output_norm": False},
        {"batch_norm": False},
        {"residual": False},
    ],
    ids=lambda own: "-".join(own) or "default",
)
def test_update_equals_pytorch_modules_in_float64(own: dict[str, Any]) -> None:
    agents = make([0, 1], **own)
    references = [reference(agents, member) for member in range(2)]
    agents.return_scale.divisor[:, 0, 0] = torch.tensor([2.0, 3.0])
    for member, divisor in enumerate((2.0, 3.0)):
        references[member].divisor = divisor
    for number in range(4):
        batch, noise = random_batch(2, number), random_batch(2, 99).action
        found = agents.update(batch, noise, SETTINGS)
        for member, one in enumerate(references):
            rows = Batch(*(part[member] for part in batch))
            critic_loss, actor_loss = one.update(rows, noise[member], SETTINGS)
            assert float(found.critic_loss[member]) == pytest.approx(critic_loss, rel=1e-9)
            if found.actor_loss is not None:
                assert float(found.actor_loss[member]) == pytest.approx(actor_loss, rel=1e-9)
    for member, one in enumerate(references):
        assert_same(networks(agents, "actor", member), [one.actor])
        assert_same(networks(agents, "critic", member), one.critics)
        assert_same(networks(agents, "actor", member, target=True), [one.targets["actor"]])
        assert_same(networks(agents, "critic", member, target=True), one.targets["critics"])


def test_unit_weights_keep_length_one_and_norms_keep_their_length() -> None:
    agents = make([0, 1])
    for number in range(3):
        agents.update(random_batch(2, number), random_batch(2, 99).action, SETTINGS)
    layers = agents.critic.named_layers()
    for name, layer in layers.items():
        if name.endswith("weight"):
            length = layer.norm(dim=-2)
            torch.testing.assert_close(length, torch.ones_like(length), rtol=0, atol=1e-6)
        if name.endswith("scale"):
            shift = layers.get(name.replace("scale", "shift"), torch.zeros_like(layer))
            length = (layer.square() + shift.square()).mean(dim=-1)
            torch.testing.assert_close(length, torch.ones_like(length), rtol=0, atol=1e-6)


def test_without_batch_norm_has_no_statistics_and_learns_numbers() -> None:
    agents = make([0], batch_norm=False)
    before = agents.critic.flat.clone()
    found = agents.update(random_batch(1, 0), random_batch(1, 99).action, SETTINGS)
    assert agents.critic.running_mean.numel() == 0
    assert bool(torch.isfinite(found.critic_loss).all())
    assert not torch.equal(before, agents.critic.flat)


def test_initial_weights_are_orthogonal_and_depend_on_the_seed() -> None:
    agents = make([0, 1], unit_weights=False)
    wide = agents.actor.named_layers()["block_1.wide.weight"]
    identity = torch.eye(wide.shape[-2], dtype=torch.float64)
    torch.testing.assert_close(wide @ wide.mT, identity.expand(2, -1, -1))
    assert not torch.equal(wide[0], wide[1])
    assert torch.equal(wide[1], make([1], unit_weights=False).actor["block_1.wide.weight"][0])


@pytest.mark.parametrize("target_actor", [True, False])
def test_smoothing_noise_is_a_share_of_max_action(target_actor: bool) -> None:
    agent = FlashTD3(
        STATE,
        ACTION,
        3.0,
        seed=0,
        variant=FlashSettings("flash", **SMALL, target_actor=target_actor),
    )
    next_state, noise = torch.zeros(1, 1, STATE), torch.full((1, 1, ACTION), 0.5)
    quiet, noisy = (agent.target_action(next_state, n, SETTINGS) for n in (0 * noise, noise))
    torch.testing.assert_close(noisy, (quiet + 3.0 * 0.15 * 0.5).clamp(-3, 3))


def test_images_are_refused() -> None:
    layout = {"image": [8, 8, 3]}
    with pytest.raises(UserError, match="no encoder for images"):
        FlashTD3(192, 2, layout=layout, variant=FlashSettings(name="flash"))


def test_recipe_flash_is_a_valid_configuration() -> None:
    config = load_recipe("flash")
    assert config.variant.name == "flash"
    assert config.agent.batch_size == 512


def test_short_training_ends_with_a_policy_that_acts(tmp_path: Any) -> None:
    run = td3.train(
        "Pendulum-v1",
        recipe="flash",
        run=tmp_path / "run",
        quiet=True,
        steps=300,
        variant={"name": "flash", **SMALL},
        agent={"batch_size": 16},
        loop={"random_steps": 100},
        evaluation={"episodes": 1},
    )
    assert run.policy([1.0, 0.0, 0.0]).shape == (1,)

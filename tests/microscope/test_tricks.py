"""Agents without a trick differ from TD3 in that trick only; unchanged ones are TD3."""

import pytest
import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.microscope.tricks import TRICKS, TrickSettings, WithoutTricks

AGENTS, BATCH, STATE, ACTION = 2, 16, 3, 2


def batches(count: int) -> list[tuple[Batch, Tensor]]:
    generator = torch.manual_seed(0)

    def draw(width: int) -> Tensor:
        one = torch.randn(1, BATCH, width, generator=generator)
        return one.expand(AGENTS, -1, -1).contiguous()

    return [
        (Batch(draw(STATE), draw(STATE), draw(ACTION).clamp(-1, 1), draw(1), draw(1) * 0), draw(2))
        for _ in range(count)
    ]


def trained(agent: TD3, settings: UpdateSettings, updates: int = 5) -> dict[str, Tensor]:
    for batch, noise in batches(updates):
        agent.update(batch, noise, settings)
    return {name: tensor.clone() for name, tensor in agent.tensors().items()}


def make(kind: type[TD3], **own: bool) -> TD3:
    """Two agents with the same seed; of `WithoutTricks`, the second one is changed."""
    variant = TrickSettings(changed=torch.tensor([0.0, 1.0]), **own) if own else None  # type: ignore[arg-type]
    return kind(STATE, ACTION, hidden_sizes=(8, 8), seed=[4, 4], variant=variant)


@pytest.mark.parametrize("trick", TRICKS)
def test_unchanged_agent_is_td3_and_the_other_lacks_one_trick(trick: str) -> None:
    right = trained(make(TD3), UpdateSettings())
    lacking = {
        "twin": (FirstCritic, UpdateSettings()),
        "smoothing": (TD3, UpdateSettings(policy_noise=0.0)),
        "delay": (TD3, UpdateSettings(policy_freq=1)),
    }[trick]
    wrong = trained(make(lacking[0]), lacking[1])
    settings = UpdateSettings(policy_freq=1 if trick == "delay" else 2)
    found = trained(make(WithoutTricks, **{trick: False}), settings)
    for name, tensor in right.items():
        assert torch.equal(found[name][0], tensor[0]), name
        assert torch.equal(found[name][1], wrong[name][1]), name
    assert not torch.equal(found["critic.layer_1.weight"][0], found["critic.layer_1.weight"][1])


class FirstCritic(TD3):
    """TD3 with one critic in the target."""

    def combine(self, next_values, noise):  # type: ignore[no-untyped-def]
        return next_values[0]

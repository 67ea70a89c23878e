"""What `check_variant` reports about a variant whose methods fail."""

from typing import Any

import pytest
import torch
from torch import Tensor

import td3
from td3.testing import VariantError, check_variant


class RaisesInUpdate(td3.TD3):
    def update(self, *given: Any) -> Any:
        raise RuntimeError("out of ideas")


class RaisesInMakeActor(td3.TD3):
    def make_actor(self, inputs: int, **shared: Any) -> Any:
        raise ValueError("no actor today")


class ReturnsNoActor(td3.TD3):
    def make_actor(self, inputs: int, **shared: Any) -> Any:
        return None


class ReturnsFloatLoss(td3.TD3):
    def critic_loss(self, *given: Any) -> Any:
        return 1.0


class DetachesLoss(td3.TD3):
    def critic_loss(self, values: Any, target_q: Tensor) -> Tensor:
        return super().critic_loss(values, target_q).detach()


class ReturnsFlatTarget(td3.TD3):
    def target_q(self, *given: Any) -> Tensor:
        return super().target_q(*given).squeeze(-1)


class CombinesToList(td3.TD3):
    def combine(self, next_values: Any, noise: Any) -> Any:
        return list(next_values)


class ReturnsNoDiagnostics(td3.TD3):
    def update(self, *given: Any) -> Any:
        super().update(*given)


class UsesSGD(td3.TD3):
    def make_optimizer(self, network: Any, learning_rate: Any) -> Any:
        return torch.optim.SGD(network.parameters(), 0.1)


class DrawsNothing(td3.TD3):
    def draw_noise(self, batch_size: int) -> Any:
        return None


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        (RaisesInUpdate, "RaisesInUpdate.update raised RuntimeError: out of ideas (test_variant"),
        (RaisesInMakeActor, "RaisesInMakeActor.make_actor raised ValueError: no actor today"),
        (ReturnsNoActor, "make_actor or make_critic must return a network of td3, got None."),
        (ReturnsFloatLoss, "A loss must be one number per agent"),
        (DetachesLoss, "A loss must depend on parameters of the networks"),
        (ReturnsFlatTarget, "target_q must return a tensor of the shape (2, 32, 1)"),
        (CombinesToList, "combine must return a tensor of the shape (2, 32, 1)"),
        (ReturnsNoDiagnostics, "update must return a Diagnostics, got None."),
        (UsesSGD, "make_optimizer must return a td3.algorithm.adam.Adam"),
        (DrawsNothing, "TD3.smooth_action raised TypeError"),
    ],
)
def test_check_variant_of_a_failing_method_reports_it_in_one_line(
    variant: type[td3.TD3], message: str
) -> None:
    with pytest.raises(VariantError) as raised:
        check_variant(variant, learns=False)
    name, *lines = str(raised.value).splitlines()
    assert name == f"{variant.__name__}:"
    (line,) = lines
    assert line.startswith("  FAILED parity: ")
    assert message in line


def test_check_variant_of_a_class_that_is_no_variant_raises_user_error() -> None:
    with pytest.raises(td3.UserError, match="not a subclass"):
        check_variant(int)  # type: ignore[arg-type]
    with pytest.raises(td3.UserError, match="delta"):
        check_variant(RaisesInUpdate, {"delta": 1.0})


@pytest.mark.parametrize("variant", [ReturnsFlatTarget, ReturnsFloatLoss, ReturnsNoDiagnostics])
def test_train_of_a_method_with_a_wrong_result_raises_user_error(variant: type[td3.TD3]) -> None:
    agent = variant(3, 1, hidden_sizes=(8,))
    replay = td3.ReplayBuffer(20)
    for _ in range(4):
        replay.add(([0.0] * 3, [0.0] * 3, [0.0], 0.0, 0.0))
    with pytest.raises(td3.UserError, match="must"):
        agent.train(replay, 1, batch_size=4)


class HasModel(td3.TD3):
    """Rewards depend on a model of PyTorch, which all agents share."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.model = self.make_model()

    def make_model(self) -> Any:
        return torch.nn.Linear(self.state_dim, 1, dtype=self.dtype, device=self.device)

    def prepare(self, batch: Any) -> Any:
        return batch._replace(reward=batch.reward + self.model(batch.state).detach())


class HasUnseededModel(HasModel):
    def make_model(self) -> Any:
        return td3.Actor(self.state_dim, 1, agents=self.agents, dtype=self.dtype)


def test_check_variant_of_a_module_of_pytorch_finds_only_that_agents_share_it() -> None:
    with pytest.raises(VariantError) as raised:
        check_variant(HasModel, learns=False)
    (line,) = [line for line in str(raised.value).splitlines() if "FAILED" in line]
    assert "FAILED population: " in line


def test_check_variant_of_unseeded_weights_reports_that_agents_of_one_seed_differ() -> None:
    with pytest.raises(VariantError) as raised:
        check_variant(HasUnseededModel, learns=False)
    lines = [line for line in str(raised.value).splitlines() if "FAILED parity" in line]
    (line,) = lines
    assert "two new agents of one seed differ in own.model." in line

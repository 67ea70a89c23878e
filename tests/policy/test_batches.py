"""A policy acts on batches, and refuses observations that are not finite."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import td3
from td3.config import EnvironmentConfig
from td3.environments.task import Task
from td3.policy.batches import batch_length
from td3.policy.from_agent import policy_card, policy_tensors
from td3.policy.policy import Policy

BOX = spaces.Box(-1, 1, (5,))
MATRIX = spaces.Box(-1, 1, (2, 3))
IMAGES = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Box(0, 255, (20, 18, 3), np.uint8))
MIXED = spaces.Tuple([spaces.Discrete(4, start=1), spaces.MultiDiscrete([3, 2]), MATRIX])
LOW, HIGH = np.float32([-2, 0, -1]), np.float32([2, 5, 1])
ACTIONS = spaces.Box(LOW, HIGH)


def make_policy(
    space: spaces.Space[Any], stack: int = 1, actions: spaces.Space[Any] = ACTIONS, **more: Any
) -> Policy:
    task = Task.of("none", space, actions, stack)
    agent = td3.TD3(
        task.state_dim,
        task.action_dim,
        hidden_sizes=(16, 8),
        seed=1,
        layout=task.layout,
        channels=(4, 5),
        features=6,
    )
    card = policy_card(agent, task, EnvironmentConfig(id="none"), {})
    return Policy(card, policy_tensors(agent)[0], **more)


def sample(space: spaces.Space[Any], stack: int = 1) -> Any:
    """One observation; a stack has a leading axis in every part, as Gymnasium's has."""
    return space.sample() if stack == 1 else join([space.sample() for _ in range(stack)])


def join(observations: list[Any]) -> Any:
    """Observations as a batch."""
    first = observations[0]
    if isinstance(first, dict):
        return {key: join([own[key] for own in observations]) for key in first}
    if isinstance(first, tuple):
        return tuple(join(list(parts)) for parts in zip(*observations, strict=True))
    return np.stack(observations)


@pytest.mark.parametrize("size", [2, 5, 40])
@pytest.mark.parametrize(
    ("space", "stack"), [(BOX, 1), (BOX, 3), (MATRIX, 1), (IMAGES, 1), (IMAGES, 2), (MIXED, 1)]
)
def test_policy_with_batch_gives_the_action_of_each_observation(
    space: spaces.Space[Any], stack: int, size: int
) -> None:
    policy = make_policy(space, stack)
    observations = [sample(space, stack) for _ in range(size)]
    expected = np.stack([policy(observation) for observation in observations])
    assert len(np.unique(expected.round(4), axis=0)) > 1
    actions = policy(join(observations))
    assert (actions.shape, actions.dtype) == ((size, 3), np.float32)
    np.testing.assert_allclose(actions, expected, atol=1e-5)


def test_policy_with_batch_keeps_the_shape_of_actions() -> None:
    policy = make_policy(BOX, actions=spaces.Box(-1, 1, (2, 2)))
    assert policy(np.zeros(5)).shape == (2, 2)
    assert policy(np.zeros((7, 5))).shape == (7, 2, 2)
    assert policy([[0.0] * 5] * 3).shape == (3, 2, 2)


@pytest.mark.parametrize("space", [BOX, IMAGES["b"]])
def test_policy_with_empty_batch_gives_no_actions(space: spaces.Space[Any]) -> None:
    assert make_policy(space)(np.zeros((0, *(space.shape or ())), space.dtype)).shape == (0, 3)


def test_policy_with_ambiguous_shape_acts_on_one_observation() -> None:
    """Three stacked observations have the shape of three observations."""
    policy = make_policy(BOX, stack=3)
    assert policy(np.zeros((3, 5))).shape == (3,)
    assert policy(np.zeros((3, 3, 5))).shape == (3, 3)


class ClampedActor(td3.Actor):
    """Another output, so that NumPy may not compute it."""

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        return self.compute(state, self.flat).clamp(-1, 1)


def test_policy_with_another_actor_acts_on_batches() -> None:
    policy = make_policy(BOX, actor_class=ClampedActor)
    batch = np.linspace(-3, 3, 20).reshape(4, 5)
    expected = np.stack([policy(observation) for observation in batch])
    np.testing.assert_allclose(policy(batch), expected, atol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((2, 4)),
        np.zeros((2, 2, 5)),
        np.zeros(()),
        [[0.0] * 5, [0.0]],
        {"a": np.zeros(5)},
        None,
        "text",
    ],
)
def test_policy_with_neither_observation_nor_batch_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"not an observation of none \(expected 5 numbers\): "):
        make_policy(BOX)(wrong)


def test_batch_length_of_unequal_parts_is_refused() -> None:
    layout = Task.of("none", IMAGES, ACTIONS).layout
    with pytest.raises(ValueError, match=r"the parts of a batch have the lengths \[3, 2\]"):
        batch_length(layout, {"a": np.zeros((3, 2)), "b": np.zeros((2, 20, 18, 3))})


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e300])
def test_policy_with_number_that_is_not_finite_names_its_index(number: float) -> None:
    policy = make_policy(BOX)
    bad = np.array([0.0, 0.1, 0.2, number, 0.4])
    seen = "nan" if np.isnan(number) else "-inf" if number < 0 else "inf"
    with pytest.raises(ValueError, match=f"^not a finite .* of none: {seen} in dimension 3$"):
        policy(bad)
    with pytest.raises(ValueError, match=f": observation 1 .* has {seen} in dimension 3$"):
        policy(np.stack([np.zeros(5), bad]))
    assert policy(bad, check=False).shape == (3,)


def test_policy_act_does_not_check() -> None:
    """Evaluations in training see NaN in the action and report the agent as diverged."""
    assert np.isnan(make_policy(BOX).act(np.full(5, np.nan, np.float32))).all()

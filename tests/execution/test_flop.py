"""Floating-point operations of an update, counted from the sizes."""

import pytest

from td3.execution.flop import update_flop


def test_update_flop_of_halfcheetah_is_413_million() -> None:
    one = update_flop(17, 6, (256, 256), 256)
    assert one == pytest.approx(413e6, rel=0.005)
    assert update_flop(17, 6, (256, 256), 256, agents=10) == 10 * one


def test_update_flop_of_one_hidden_unit_by_hand() -> None:
    # Weights: actor 1·1 + 1·1 = 2, critic 2·1 + 1·1 = 3; two operations per weight and example.
    every = 2 + 2 * 3 + 2 * 3 + 2 * (3 - 2) + 2 * 3  # steps 5, 7, 10, 12 (inputs, weights)
    delayed = 2 + 3 + (3 - 1) + (2 - 1) + 2  # step 13: forward, critic's action, actor
    assert update_flop(1, 1, (1,), batch_size=1, policy_freq=1) == 2 * (every + delayed)
    assert update_flop(1, 1, (1,), batch_size=5, policy_freq=2) == 10 * (every + delayed / 2)

"""Floating-point operations in the matrix products of one update, counted from the sizes."""

from collections.abc import Sequence
from itertools import pairwise


def update_flop(
    state_dim: int,
    action_dim: int,
    hidden_sizes: Sequence[int],
    batch_size: int,
    agents: int = 1,
    policy_freq: int = 2,
) -> float:
    """Return the mean over a cycle of `policy_freq` updates, for all agents together.

    Autograd skips unused gradients: those of the batch, and in step 13 those of the
    state and of the critic's weights.
    """
    actor, critic = (
        sum(inputs * outputs for inputs, outputs in pairwise(widths))
        for widths in (
            (state_dim, *hidden_sizes, action_dim),
            (state_dim + action_dim, *hidden_sizes, 1),
        )
    )
    first = (*hidden_sizes, 1)[0]
    every = actor + 2 * (4 * critic - (state_dim + action_dim) * first)  # steps 5 to 12
    first_of_actor = (*hidden_sizes, action_dim)[0]
    delayed = 3 * actor - state_dim * first_of_actor + 2 * critic - state_dim * first  # step 13
    return 2 * batch_size * agents * (every + delayed / policy_freq)  # multiply and add

"""Step 1: the replay ring holds what was added and samples it fairly."""

import numpy as np
import pytest
import torch

import td3
from td3.algorithm.replay import Batch, ReplayBuffer, row_width
from td3.seeding import stream_state

STATE, ACTION = 3, 2
CHI_SQUARE_1_PERCENT = {9: 21.67, 39: 62.43}  # by degrees of freedom
Transition = tuple[np.ndarray, np.ndarray, np.ndarray, float, float]


def transition(number: int) -> Transition:
    """A transition in which every number says where it belongs."""
    state = number + np.array([0.1, 0.2, 0.3])
    next_state = number + np.array([0.4, 0.5, 0.6])
    action = number + np.array([0.7, 0.8])
    return state, next_state, action, number + 0.9, float(number % 2)


def filled(count: int, max_size: float = 1000, seed: int = 0) -> ReplayBuffer:
    buffer = ReplayBuffer(max_size, seed=seed)
    for number in range(count):
        buffer.add(transition(number))
    return buffer


def numbers(buffer: ReplayBuffer, batch_size: int = 2000) -> set[int]:
    """Which transitions come up in a large sample."""
    return {int(state[0]) for state in buffer.sample(batch_size)[0]}


def test_sample_gives_five_different_right_things() -> None:
    states, next_states, actions, rewards, dones = filled(50).sample(400)
    for state, next_state, action, reward, done in zip(
        states, next_states, actions, rewards, dones, strict=True
    ):
        expected = transition(int(state[0]))
        for found, wanted in zip((state, next_state, action, reward, done), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_sample_gives_numpy_arrays_with_a_column_for_reward_and_done() -> None:
    sample = filled(5).sample(7)
    assert [type(part) for part in sample] == [np.ndarray] * 5
    assert [part.shape for part in sample] == [(7, STATE), (7, STATE), (7, ACTION), (7, 1), (7, 1)]


def test_a_sample_is_a_copy() -> None:
    buffer = filled(1)
    for part in buffer.sample(3):
        part[...] = -1
    np.testing.assert_allclose(buffer.sample(1)[0][0], transition(0)[0], rtol=1e-6)


def test_plain_lists_and_booleans_can_be_added() -> None:
    buffer = td3.ReplayBuffer(10, seed=0)
    buffer.add(([1, 2, 3], [4, 5, 6], [7, 8], 9, True))
    assert [part[0].tolist() for part in buffer.sample(1)] == [
        [1, 2, 3],
        [4, 5, 6],
        [7, 8],
        [9],
        [1],
    ]


def test_what_was_added_does_not_follow_the_callers_array() -> None:
    buffer, state = ReplayBuffer(10, seed=0), np.ones(STATE)
    buffer.add((state, state, np.ones(ACTION), 1.0, 0.0))
    state[:] = 5
    assert buffer.sample(1)[0].tolist() == [[1, 1, 1]]


def test_the_ring_overwrites_the_oldest() -> None:
    buffer = filled(4, max_size=4)
    assert numbers(buffer) == {0, 1, 2, 3}
    buffer.add(transition(4))
    assert numbers(buffer) == {1, 2, 3, 4}
    for number in range(5, 11):
        buffer.add(transition(number))
    assert numbers(buffer) == {7, 8, 9, 10}
    assert len(buffer) == buffer.max_size == 4
    assert buffer.added.tolist() == [11]


def test_max_size_may_be_a_float_as_in_the_walk_throughs() -> None:
    buffer = ReplayBuffer(max_size=1e6)
    assert buffer.max_size == 1_000_000
    assert isinstance(buffer.max_size, int)
    assert ReplayBuffer().max_size == 1_000_000


@pytest.mark.parametrize("max_size", [0, -1, 0.5])
def test_a_ring_without_room_is_refused(max_size: float) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ReplayBuffer(max_size)


def test_memory_is_reserved_at_the_first_transition() -> None:
    buffer = ReplayBuffer(1000)
    assert buffer.rows is None
    assert len(buffer) == 0
    buffer.add(transition(0))
    assert buffer.rows is not None
    assert buffer.rows.shape == (1, 1000, row_width(STATE, ACTION))
    assert row_width(STATE, ACTION) == 2 * STATE + ACTION + 2


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def test_sampling_is_uniform() -> None:
    size, draws = 40, 40_000
    counts = np.bincount(filled(size, seed=7).draw(draws)[0], minlength=size)
    assert counts.sum() == draws
    assert chi_square(counts) < CHI_SQUARE_1_PERCENT[39]


def test_sampling_is_uniform_over_a_ring_that_wrapped() -> None:
    found = filled(25, max_size=10, seed=3).sample(20_000)[0][:, 0].astype(int)
    counts = np.bincount(found - 15, minlength=10)
    assert len(counts) == 10
    assert chi_square(counts) < CHI_SQUARE_1_PERCENT[9]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 100])
def test_every_stored_transition_can_be_drawn_and_no_other(count: int) -> None:
    assert numbers(filled(count, max_size=100), 200 * count) == set(range(count))


def test_an_empty_buffer_refuses_to_sample() -> None:
    with pytest.raises(ValueError, match="empty"):
        ReplayBuffer(10).sample(1)


def test_a_population_refuses_to_sample_while_one_ring_is_empty() -> None:
    buffer = ReplayBuffer(10, seed=[0, 1])
    buffer.add_rows(np.array([0]), np.zeros((1, row_width(STATE, ACTION))), STATE, ACTION)
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)


def test_the_same_seed_gives_the_same_draws_and_another_seed_does_not() -> None:
    first, again, other = filled(100, seed=1), filled(100, seed=1), filled(100, seed=2)
    draws = first.draw(200)
    assert np.array_equal(draws, again.draw(200))
    assert not np.array_equal(draws, other.draw(200))


def test_global_seed_governs_a_buffer_without_one() -> None:
    draws = []
    for seed in (5, 5, 6):
        np.random.seed(seed)  # noqa: NPY002 - what the walk-throughs call
        buffer = ReplayBuffer(100)
        for number in range(100):
            buffer.add(transition(number))
        draws.append(buffer.draw(50))
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])


def population(seeds: list[int], counts: list[int], max_size: int = 30) -> ReplayBuffer:
    """Rings filled unequally, agent k's with transitions from 100 k on."""
    buffer = ReplayBuffer(max_size, seed=seeds)
    for number in range(max(counts)):
        for agent, count in enumerate(counts):
            if number < count:
                state, next_state, action, reward, done = transition(100 * agent + number)
                row = np.hstack([state, action, next_state, reward, done])[None]
                buffer.add_rows(np.array([agent]), row, STATE, ACTION)
    return buffer


def test_agent_k_of_a_population_draws_what_it_draws_alone() -> None:
    seeds, counts = [4, 9, 4], [10, 30, 55]
    together = population(seeds, counts)
    drawn = [together.draw(20) for _ in range(3)]
    for agent, (seed, count) in enumerate(zip(seeds, counts, strict=True)):
        alone = filled(count, max_size=30, seed=seed)
        for draws in drawn:
            assert np.array_equal(draws[agent], alone.draw(20)[0])


def test_every_agent_samples_from_its_own_ring() -> None:
    counts = [10, 30, 55]
    sample = population([0, 1, 2], counts).sample(500)
    assert [part.shape for part in sample] == [(3, 500, w) for w in (STATE, STATE, ACTION, 1, 1)]
    for agent, count in enumerate(counts):
        found = set(sample[0][agent, :, 0].astype(int) - 100 * agent)
        assert found == set(range(max(0, count - 30), count))


def test_adding_to_a_population_stores_one_transition_of_each_agent() -> None:
    buffer = ReplayBuffer(10, seed=[0, 1])
    parts = [np.stack(pair) for pair in zip(transition(3), transition(8), strict=True)]
    buffer.add(tuple(parts))  # type: ignore[arg-type]
    states, next_states, actions, rewards, dones = buffer.sample(1)
    for agent, number in enumerate((3, 8)):
        found = (states, next_states, actions, rewards, dones)
        for part, expected in zip(found, transition(number), strict=True):
            np.testing.assert_allclose(part[agent, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("count", [1, 3, 100])
def test_a_block_of_draws_equals_drawing_one_at_a_time(count: int) -> None:
    block, single = filled(count), filled(count)
    drawn = block.draw(60)[0]
    assert np.array_equal(drawn, [single.draw(1)[0, 0] for _ in range(60)])
    assert stream_state(block.streams[0]) == stream_state(single.streams[0])


def test_the_stream_moves_by_the_same_amount_whatever_the_size() -> None:
    small, large = filled(1), filled(777)
    small.draw(33)
    large.draw(33)
    assert stream_state(small.streams[0]) == stream_state(large.streams[0])


def test_a_member_shares_the_ring_and_the_stream() -> None:
    buffer = population([0, 1], [5, 8])
    reference = population([0, 1], [5, 8])
    member = buffer.member(1)
    assert len(member) == 8
    assert np.array_equal(member.draw(10)[0], reference.draw(10)[1])
    assert stream_state(buffer.streams[1]) == stream_state(reference.streams[1])
    assert stream_state(buffer.streams[0]) != stream_state(reference.streams[0])
    member.add(transition(100 + 8))
    assert buffer.sizes.tolist() == [5, 9]
    assert set(buffer.sample(500)[0][1, :, 0].astype(int)) == set(range(100, 109))


def wrong(part: str, width: int) -> Transition:
    """A transition of which one part is too narrow or too wide."""
    parts = dict(
        zip(("state", "next_state", "action", "reward", "done"), transition(0), strict=True)
    )
    parts[part] = np.zeros(width)
    return tuple(parts.values())  # type: ignore[return-value]


@pytest.mark.parametrize("part", Batch._fields)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_part_of_the_wrong_width_is_refused(part: str, change: int) -> None:
    width = {"state": STATE, "next_state": STATE, "action": ACTION}.get(part, 1)
    buffer = filled(2)
    with pytest.raises(ValueError):
        buffer.add(wrong(part, width + change))
    assert len(buffer) == 2
    assert numbers(buffer) == {0, 1}


def test_widths_that_are_wrong_twice_do_not_cancel_out() -> None:
    buffer = filled(2)
    state, _, action, _, done = transition(2)
    with pytest.raises(ValueError):
        buffer.add((state, np.zeros(STATE - 1), action, np.zeros(2), done))  # type: ignore[arg-type]
    assert len(buffer) == 2


def test_the_first_transition_is_checked_too() -> None:
    buffer = ReplayBuffer(10, seed=0)
    with pytest.raises(ValueError):
        buffer.add(wrong("next_state", STATE + 1))
    buffer.add(transition(0))
    assert len(buffer) == 1


def test_the_ring_keeps_the_precision_asked_for() -> None:
    buffer = ReplayBuffer(10, seed=0, dtype=torch.float64)
    buffer.add(transition(1))
    state = buffer.sample(1)[0]
    assert state.dtype == np.float64
    assert np.array_equal(state[0], transition(1)[0])

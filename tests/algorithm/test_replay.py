"""Step 1: the replay buffer returns what was added and samples it uniformly."""

import numpy as np
import pytest
import torch

import td3
from td3.algorithm.replay import Batch, ReplayBuffer, row_width
from td3.algorithm.transitions import Transitions
from td3.seeding import stream_state

STATE, ACTION = 3, 2
CHI_SQUARE_1_PERCENT = {9: 21.67, 39: 62.43}  # by degrees of freedom
Transition = tuple[np.ndarray, np.ndarray, np.ndarray, float, float]


def transition(number: int) -> Transition:
    """A transition with numbers that identify it and their position."""
    state = number + np.array([0.1, 0.2, 0.3])
    next_state = number + np.array([0.4, 0.5, 0.6])
    action = number + np.array([0.7, 0.8])
    return state, next_state, action, number + 0.9, float(number % 2)


def filled(count: int, max_size: float = 1000, seed: int = 0) -> ReplayBuffer:
    buffer = ReplayBuffer(max_size, seed=seed)
    for number in range(count):
        buffer.add(transition(number))
    return buffer


def store_row(buffer: ReplayBuffer, agent: int, row: np.ndarray) -> None:
    one = Transitions(np.array([agent]), np.zeros(1, int), row[None], np.zeros(1, bool))
    buffer.store(one, STATE, ACTION)


def numbers(buffer: ReplayBuffer, batch_size: int = 2000) -> set[int]:
    """The transitions in a large sample."""
    return {int(state[0]) for state in buffer.sample(batch_size)[0]}


def test_sample_returns_matching_parts_of_each_transition() -> None:
    states, next_states, actions, rewards, dones = filled(50).sample(400)
    for state, next_state, action, reward, done in zip(
        states, next_states, actions, rewards, dones, strict=True
    ):
        expected = transition(int(state[0]))
        for found, wanted in zip((state, next_state, action, reward, done), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_sample_returns_numpy_arrays_with_column_for_reward_and_done() -> None:
    sample = filled(5).sample(7)
    assert [type(part) for part in sample] == [np.ndarray] * 5
    assert [part.shape for part in sample] == [(7, STATE), (7, STATE), (7, ACTION), (7, 1), (7, 1)]


def test_sample_changed_by_caller_leaves_buffer_unchanged() -> None:
    buffer = filled(1)
    for part in buffer.sample(3):
        part[...] = -1
    np.testing.assert_allclose(buffer.sample(1)[0][0], transition(0)[0], rtol=1e-6)


def test_add_lists_and_booleans_stores_numbers() -> None:
    buffer = td3.ReplayBuffer(10, seed=0)
    buffer.add(([1, 2, 3], [4, 5, 6], [7, 8], 9, True))
    assert [part[0].tolist() for part in buffer.sample(1)] == [
        [1, 2, 3],
        [4, 5, 6],
        [7, 8],
        [9],
        [1],
    ]


def test_add_array_changed_later_keeps_stored_values() -> None:
    buffer, state = ReplayBuffer(10, seed=0), np.ones(STATE)
    buffer.add((state, state, np.ones(ACTION), 1.0, 0.0))
    state[:] = 5
    assert buffer.sample(1)[0].tolist() == [[1, 1, 1]]


def test_add_to_full_buffer_overwrites_oldest() -> None:
    buffer = filled(4, max_size=4)
    assert numbers(buffer) == {0, 1, 2, 3}
    buffer.add(transition(4))
    assert numbers(buffer) == {1, 2, 3, 4}
    for number in range(5, 11):
        buffer.add(transition(number))
    assert numbers(buffer) == {7, 8, 9, 10}
    assert len(buffer) == buffer.capacity == 4
    assert buffer.added.tolist() == [11]


def test_init_float_max_size_gives_integer_capacity() -> None:
    buffer = ReplayBuffer(max_size=1e6)
    assert buffer.capacity == 1_000_000
    assert isinstance(buffer.capacity, int)
    assert ReplayBuffer().capacity == 1_000_000


@pytest.mark.parametrize("max_size", [0, -1, 0.5])
def test_init_max_size_below_one_raises(max_size: float) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ReplayBuffer(max_size)


def test_add_first_transition_allocates_memory() -> None:
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


def test_draw_partly_filled_is_uniform() -> None:
    size, draws = 40, 40_000
    counts = np.bincount(filled(size, seed=7).draw(draws)[0], minlength=size)
    assert counts.sum() == draws
    assert chi_square(counts) < CHI_SQUARE_1_PERCENT[39]


def test_sample_after_wrapping_is_uniform() -> None:
    found = filled(25, max_size=10, seed=3).sample(20_000)[0][:, 0].astype(int)
    counts = np.bincount(found - 15, minlength=10)
    assert len(counts) == 10
    assert chi_square(counts) < CHI_SQUARE_1_PERCENT[9]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 100])
def test_sample_many_finds_every_stored_transition_and_no_other(count: int) -> None:
    assert numbers(filled(count, max_size=100), 200 * count) == set(range(count))


def test_sample_empty_buffer_raises() -> None:
    with pytest.raises(ValueError, match="empty"):
        ReplayBuffer(10).sample(1)


def test_sample_with_one_empty_agent_raises() -> None:
    buffer = ReplayBuffer(10, seed=[0, 1])
    store_row(buffer, 0, np.zeros(row_width(STATE, ACTION)))
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1)


def test_draw_same_seed_repeats_and_other_seed_differs() -> None:
    first, again, other = filled(100, seed=1), filled(100, seed=1), filled(100, seed=2)
    draws = first.draw(200)
    assert np.array_equal(draws, again.draw(200))
    assert not np.array_equal(draws, other.draw(200))


def test_draw_without_seed_follows_numpy_global_seed() -> None:
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
    """A buffer with different counts per agent; agent k stores transitions from 100 k on."""
    buffer = ReplayBuffer(max_size, seed=seeds)
    for number in range(max(counts)):
        for agent, count in enumerate(counts):
            if number < count:
                store_row(buffer, agent, np.hstack(transition(100 * agent + number)))
    return buffer


def test_draw_in_population_equals_draw_alone() -> None:
    seeds, counts = [4, 9, 4], [10, 30, 55]
    together = population(seeds, counts)
    drawn = [together.draw(20) for _ in range(3)]
    for agent, (seed, count) in enumerate(zip(seeds, counts, strict=True)):
        alone = filled(count, max_size=30, seed=seed)
        for draws in drawn:
            assert np.array_equal(draws[agent], alone.draw(20)[0])


def test_sample_population_returns_each_agents_own_transitions() -> None:
    counts = [10, 30, 55]
    sample = population([0, 1, 2], counts).sample(500)
    assert [part.shape for part in sample] == [(3, 500, w) for w in (STATE, STATE, ACTION, 1, 1)]
    for agent, count in enumerate(counts):
        found = set(sample[0][agent, :, 0].astype(int) - 100 * agent)
        assert found == set(range(max(0, count - 30), count))


def test_add_to_population_stores_one_transition_per_agent() -> None:
    buffer = ReplayBuffer(10, seed=[0, 1])
    parts = [np.stack(pair) for pair in zip(transition(3), transition(8), strict=True)]
    buffer.add(tuple(parts))  # type: ignore[arg-type]
    states, next_states, actions, rewards, dones = buffer.sample(1)
    for agent, number in enumerate((3, 8)):
        found = (states, next_states, actions, rewards, dones)
        for part, expected in zip(found, transition(number), strict=True):
            np.testing.assert_allclose(part[agent, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("count", [1, 3, 100])
def test_draw_block_equals_single_draws(count: int) -> None:
    block, single = filled(count), filled(count)
    drawn = block.draw(60)[0]
    assert np.array_equal(drawn, [single.draw(1)[0, 0] for _ in range(60)])
    assert stream_state(block.streams[0]) == stream_state(single.streams[0])


def test_draw_advances_stream_equally_for_any_buffer_size() -> None:
    small, large = filled(1), filled(777)
    small.draw(33)
    large.draw(33)
    assert stream_state(small.streams[0]) == stream_state(large.streams[0])


def test_member_shares_memory_and_stream() -> None:
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
    """A transition with one part of another size."""
    parts = dict(
        zip(("state", "next_state", "action", "reward", "done"), transition(0), strict=True)
    )
    parts[part] = np.zeros(width)
    return tuple(parts.values())  # type: ignore[return-value]


@pytest.mark.parametrize("part", Batch._fields)
@pytest.mark.parametrize("change", [-1, 1])
def test_add_part_of_wrong_size_raises_and_stores_nothing(part: str, change: int) -> None:
    width = {"state": STATE, "next_state": STATE, "action": ACTION}.get(part, 1)
    buffer = filled(2)
    numbers_found = "1 number" if width + change == 1 else f"{width + change} numbers"
    message = f"^{part} has {numbers_found}, this buffer holds {width}$"
    with pytest.raises(ValueError, match=message):
        buffer.add(wrong(part, width + change))
    assert len(buffer) == 2
    assert numbers(buffer) == {0, 1}


def test_add_two_wrong_sizes_with_right_total_raises() -> None:
    buffer = filled(2)
    state, _, action, _, done = transition(2)
    with pytest.raises(ValueError, match="next_state has 2 numbers, this buffer holds 3"):
        buffer.add((state, np.zeros(STATE - 1), action, np.zeros(2), done))  # type: ignore[arg-type]
    assert len(buffer) == 2


def test_add_first_transition_of_wrong_sizes_raises() -> None:
    buffer = ReplayBuffer(10, seed=0)
    with pytest.raises(ValueError, match="next_state has 3 numbers, this buffer holds 4"):
        buffer.add(wrong("state", STATE + 1))
    buffer.add(transition(0))
    assert len(buffer) == 1


@pytest.mark.parametrize("count", [0, 4, 6])
def test_add_wrong_number_of_parts_raises(count: int) -> None:
    parts = [*transition(0), 0.0][:count]
    for buffer in (filled(0), filled(2)):
        before = len(buffer)
        with pytest.raises(ValueError, match=rf"5 parts \(state, next_state, .*\), got {count}$"):
            buffer.add(tuple(parts))  # type: ignore[arg-type]
        assert len(buffer) == before


def test_store_other_state_size_raises() -> None:
    buffer = filled(2)
    rows = np.zeros((1, row_width(4, ACTION)), dtype=np.float32)
    one = Transitions(np.zeros(1, int), np.zeros(1, int), rows, np.zeros(1, bool))
    with pytest.raises(ValueError, match="state has 4 numbers, this buffer holds 3"):
        buffer.store(one, 4, ACTION)
    assert len(buffer) == 2


def test_init_dtype_sets_stored_precision() -> None:
    buffer = ReplayBuffer(10, seed=0, dtype=torch.float64)
    buffer.add(transition(1))
    state = buffer.sample(1)[0]
    assert state.dtype == np.float64
    assert np.array_equal(state[0], transition(1)[0])

"""Step 4 with priorities: transitions are sampled in proportion to them."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from td3.algorithm.prioritized import BLOCK, PrioritizedReplay
from td3.seeding import restore_stream, stream_state

STATE, ACTION = 2, 1
WIDTH = 2 * STATE + ACTION + 2


def make(capacity: int, seeds: list[int], filled: int | None = None) -> PrioritizedReplay:
    """A buffer whose transition k of agent a has the state (k, a)."""
    replay = PrioritizedReplay(capacity, seed=seeds)
    replay.allocate(STATE, ACTION)
    for agent in range(len(seeds)):
        for number in range(capacity if filled is None else filled):
            add(replay, agent, number)
    return replay


def add(replay: PrioritizedReplay, agent: int, number: int) -> None:
    row = np.zeros(WIDTH)
    row[:2] = number, agent
    replay.append(agent, row)


def set_all(replay: PrioritizedReplay, priorities: Tensor) -> None:
    """Set the priority of every place, (agents, places)."""
    places = torch.arange(priorities.shape[1]).expand(priorities.shape)
    replay.set_priorities(places, priorities)


def shares(replay: PrioritizedReplay, draws: int = 40_000) -> np.ndarray:
    """How often each place was chosen, (agents, capacity)."""
    chosen = np.concatenate([replay.draw(2000) for _ in range(draws // 2000)], axis=1)
    return np.stack([np.bincount(own, minlength=replay.capacity) for own in chosen]) / draws


def assert_proportional(replay: PrioritizedReplay, draws: int = 40_000) -> None:
    """The chi-square statistic stays near its degrees of freedom, within five deviations."""
    weights = replay.weights.double().numpy()
    expected = weights / weights.sum(axis=1, keepdims=True)
    found = shares(replay, draws)
    assert (found[expected == 0] == 0).all()
    for share, right in zip(found, expected, strict=True):
        used = right > 0
        square = draws * ((share - right)[used] ** 2 / right[used]).sum()
        freedom = used.sum() - 1
        assert square < freedom + 5 * np.sqrt(2 * freedom) + 1e-9


def test_transitions_are_sampled_in_proportion_to_their_priorities() -> None:
    replay = make(10, [0, 1])
    set_all(replay, torch.tensor([[1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10], [5.0] * 9 + [55.0]]))
    assert_proportional(replay)
    share = shares(replay)
    assert share[0] == pytest.approx(np.arange(1, 11) / 55, abs=0.01)
    assert share[1, -1] == pytest.approx(0.55, abs=0.01)


@pytest.mark.parametrize("capacity", [BLOCK, BLOCK + 1, 3 * BLOCK - 7])
def test_more_than_one_block_is_sampled_in_proportion(capacity: int) -> None:
    replay = make(capacity, [0, 1])
    random = torch.rand(2, capacity, generator=torch.Generator().manual_seed(0)) + 0.01
    random[:, BLOCK // 2 :: 3] *= 20
    set_all(replay, random)
    assert_proportional(replay, draws=60_000)
    torch.testing.assert_close(replay.sums, replay.values.sum(dim=-1))


def test_transition_with_nearly_all_of_the_weight_is_chosen_in_any_block() -> None:
    replay = make(3 * BLOCK, [0])
    for place in (0, BLOCK - 1, BLOCK, 2 * BLOCK + 5, 3 * BLOCK - 1):
        priorities = torch.full((1, 3 * BLOCK), 1e-9)
        priorities[0, place] = 1e9
        set_all(replay, priorities)
        assert (replay.draw(500) == place).all()


def test_new_transitions_get_the_highest_priority() -> None:
    replay = make(10, [0, 1], filled=3)
    assert replay.weights[:, :4].tolist() == [[1, 1, 1, 0]] * 2
    set_all(replay, torch.tensor([[2.0, 7.0, 0.5], [0.5, 0.25, 0.5]]))
    set_all(replay, torch.tensor([[2.0, 3.0, 0.5], [0.5, 0.25, 0.5]]))  # the highest so far stays
    for agent in range(2):
        add(replay, agent, 3)
    assert replay.weights[:, 3].tolist() == [7, 1]
    assert replay.sums[:, 0].tolist() == [12.5, 2.25]


def test_full_ring_overwrites_the_oldest_priority() -> None:
    replay = make(4, [0])
    set_all(replay, torch.tensor([[3.0, 0.1, 0.1, 0.1]]))
    for number in (4, 5):
        add(replay, 0, number)
    assert replay.weights.tolist() == [[3.0, 3.0, pytest.approx(0.1), pytest.approx(0.1)]]
    assert float(replay.sums) == pytest.approx(6.2)
    states = replay.sample(2000)[0]
    assert {int(state[0]) for state in states} == {2, 3, 4, 5}
    assert_proportional(replay)


def test_no_place_without_transition_is_chosen() -> None:
    replay = make(2 * BLOCK, [0], filled=3)
    assert set(replay.draw(5000).ravel().tolist()) == {0, 1, 2}
    edges = np.array([[0.0, 0.5, np.nextafter(1.0, 0.0)]])  # the last one rounds to 1 in float32
    assert replay.indices(edges).tolist() == [[0, 1, 2]]


def test_no_place_with_priority_zero_is_chosen_at_the_edge() -> None:
    replay = make(2 * BLOCK, [0])
    priorities = torch.zeros(1, 2 * BLOCK)
    priorities[0, [BLOCK + 3, BLOCK + 8]] = 1
    set_all(replay, priorities)
    edges = np.array([[0.0, 0.499, 0.5, 0.999]])
    assert replay.indices(edges).tolist() == [[BLOCK + 3, BLOCK + 3, BLOCK + 8, BLOCK + 8]]


def test_duplicates_in_a_batch_take_the_larger_priority() -> None:
    for order in ([5.0, 2.0, 3.0], [2.0, 3.0, 5.0]):
        replay = make(6, [0])
        replay.set_priorities(np.array([[4, 4, 4, 1]]), torch.tensor([[*order, 0.5]]))
        assert replay.weights.tolist() == [[1, 0.5, 1, 1, 5, 1]]
        assert replay.sums.tolist() == [[9.5]]


def test_agents_do_not_mix() -> None:
    both = make(50, [0, 1])
    alone = make(50, [1])
    first = torch.rand(1, 50, generator=torch.Generator().manual_seed(0))
    second = torch.rand(1, 50, generator=torch.Generator().manual_seed(1))
    set_all(both, torch.cat([first, second]))
    set_all(alone, second)
    for _ in range(5):
        chosen, own = both.draw(64), alone.draw(64)
        assert (chosen[1] == own[0]).all()
        assert (both.gather(chosen).state[:, :, 1] == torch.tensor([[0.0], [1.0]])).all()
        priorities = torch.rand(1, 64, generator=torch.Generator().manual_seed(2))
        both.set_priorities(chosen, torch.cat([1000 * priorities, priorities]))
        alone.set_priorities(own, priorities)
        add(both, 1, 7)
        add(alone, 0, 7)
    assert torch.equal(both.weights[1:], alone.weights)
    assert torch.equal(both.highest[1:], alone.highest)
    assert both.highest[0] > 100


def test_restored_buffer_continues_identically() -> None:
    replay, other = make(1500, [0, 1]), make(1500, [8, 9], filled=0)
    set_all(replay, torch.rand(2, 1500, generator=torch.Generator().manual_seed(0)) + 1)
    stored = {name: tensor.clone() for name, tensor in replay.tensors().items()}
    assert set(stored) == {"priorities", "sums", "highest"}
    assert replay.rows is not None
    assert other.rows is not None
    other.rows.copy_(replay.rows)
    other.added[:] = replay.added
    other.restore(stored)
    for stream, source in zip(other.streams, replay.streams, strict=True):
        restore_stream(stream, stream_state(source))
    for each in (replay, other):
        generator = torch.Generator().manual_seed(3)
        for step in range(5):
            chosen = each.draw(100)
            each.set_priorities(chosen, 3 * torch.rand(2, 100, generator=generator))
            add(each, step % 2, step)
    for name, tensor in replay.tensors().items():
        assert torch.equal(tensor, other.tensors()[name]), name
    assert (replay.draw(100) == other.draw(100)).all()


def test_member_shares_memory() -> None:
    replay = make(20, [0, 1, 2], filled=10)
    member = replay.member(1)
    member.set_priorities(np.array([[3]]), torch.tensor([[8.0]]))
    add(member, 0, 10)
    assert replay.weights[1, [3, 10]].tolist() == [8, 8]
    assert replay.sums[:, 0].tolist() == [10, 25, 10]
    assert replay.highest[:, 0].tolist() == [1, 8, 1]
    assert replay.added.tolist() == [10, 11, 10]
    chosen = copy.deepcopy(member).draw(30)
    assert (replay.draw(30)[1] == chosen[0]).all()


def test_reading_copy_does_not_change_the_original() -> None:
    replay = make(20, [0, 1])
    before = {name: tensor.clone() for name, tensor in replay.tensors().items()}
    streams = [stream_state(stream) for stream in replay.streams]
    other = replay.reading_copy()
    chosen = other.draw(10)
    other.set_priorities(chosen, torch.full((2, 10), 4.0))
    assert other.highest[0, 0] == 4
    for name, tensor in replay.tensors().items():
        assert torch.equal(tensor, before[name]), name
    assert [stream_state(stream) for stream in replay.streams] == streams
    assert (replay.draw(10) == chosen).all()


def test_cleared_buffer_forgets_the_priorities() -> None:
    replay = make(10, [0])
    set_all(replay, torch.arange(1.0, 11).view(1, 10))
    replay.clear()
    for number in range(4):
        add(replay, 0, number)
    assert shares(replay)[0, :4] == pytest.approx(0.25, abs=0.02)


def test_erased_agent_with_nan_priorities_still_samples() -> None:
    replay = make(20, [0, 1], filled=10)
    bad = torch.full((2, 10), 2.0)
    bad[0] = torch.nan
    set_all(replay, bad)
    replay.draw(50)  # until the freeze, an agent with NaN samples valid places
    replay.erase(0)
    assert replay.weights[0].tolist() == [1.0] * 10 + [0.0] * 10
    assert replay.weights[1].tolist() == [2.0] * 10 + [0.0] * 10
    assert_proportional(replay)
    assert not replay.gather(replay.draw(50)).state[0].any()
    add(replay, 0, 3)
    assert replay.weights[0, 10] == 1


def test_agent_without_priorities_is_refused() -> None:
    with pytest.raises(ValueError, match="needs an agent that returns priorities"):
        make(5, [0]).set_priorities(np.array([[0]]), None)

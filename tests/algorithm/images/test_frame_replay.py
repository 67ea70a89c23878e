"""Step 1 for stacks, images and n-step returns, against an oracle that keeps everything."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from support.frame_oracle import ACTION, SPACE, Oracle

from td3.algorithm.images import frame_replay as frames
from td3.algorithm.images.frame_replay import FrameReplay, on_disk, shifted
from td3.algorithm.transitions import Transitions
from td3.environments.observations import observation_layout
from td3.errors import UserError
from td3.layout import layout_size, stacked


def made(oracle: Oracle, capacity: int, **more: Any) -> tuple[FrameReplay, int]:
    layout = stacked(observation_layout(SPACE, "Some-v0"), oracle.stack)
    ring = FrameReplay(
        capacity, layout, environments=oracle.environments, seed=range(oracle.agents), **more
    )
    return ring, layout_size(layout)


def everything(ring: FrameReplay) -> NDArray[np.int64]:
    """Every transition that could be drawn, (agents, all, 5)."""
    sizes = set(ring.sizes.tolist())
    assert len(sizes) == 1
    numbers = ring.oldest[:, None] + np.arange(sizes.pop())
    return np.stack([numbers, *[np.zeros_like(numbers)] * 4], axis=-1)


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("environments", [1, 3])
@pytest.mark.parametrize("ending", [0.0, 0.2, 1.0])
def test_stacks_are_what_they_were_across_episode_ends(
    stack: int, environments: int, ending: float
) -> None:
    oracle = Oracle(stack, environments, ending=ending)
    ring, state_dim = made(oracle, capacity=40)
    for _ in range(200 // environments):
        ring.store(oracle.step(), state_dim, ACTION)
        drawn = everything(ring)
        batch = ring.gather(drawn)
        rows = torch.cat(batch, dim=-1)[0].numpy()
        for number, row in zip(drawn[0, :, 0], rows, strict=True):
            np.testing.assert_array_equal(row, oracle.happened[0][number]["row"])
    assert ring.sizes[0] > 15 if ending else ring.sizes[0] == 40


@pytest.mark.parametrize("n_step", [2, 3])
def test_n_steps_end_where_the_episode_does(n_step: int) -> None:
    discounts = torch.tensor([0.9, 0.5])
    oracle = Oracle(stack=2, environments=2, agents=2)
    ring, state_dim = made(oracle, capacity=60, n_step=n_step, discount=discounts)
    for _ in range(50):
        ring.store(oracle.step(), state_dim, ACTION)
    agent = 1
    first, last = int(ring.oldest[agent]), int(ring.added[agent])
    drawn = np.zeros((2, 20, 5), dtype=np.int64)
    drawn[0, :, 0] = ring.oldest[0]
    drawn[agent, :, 0] = np.linspace(first, last - 1, 20)
    batch = ring.gather(drawn)
    happened, discount = oracle.happened[agent], float(discounts[agent])
    for index, number in enumerate(drawn[agent, :, 0]):
        reward, weight = 0.0, 1.0
        future = [h for h in happened[number:] if h["life"] == happened[number]["life"]][:n_step]
        for entry in future:
            reward += weight * entry["row"][-2]
            goes_on = weight * (1 - entry["row"][-1])
            weight *= discount
        assert batch.reward[agent, index].item() == pytest.approx(reward, abs=1e-5)
        assert 1 - batch.done[agent, index].item() == pytest.approx(goes_on, abs=1e-6)
        expected = future[-1]["row"][state_dim : 2 * state_dim]
        np.testing.assert_array_equal(batch.next_state[agent, index], expected)
        np.testing.assert_array_equal(
            batch.state[agent, index], happened[number]["row"][:state_dim]
        )


def test_a_member_samples_what_it_would_alone() -> None:
    oracle = Oracle(stack=2, environments=1, agents=3)
    ring, state_dim = made(oracle, capacity=30, random_shift=1)
    alone = FrameReplay(30, ring.layout, seed=1, random_shift=1)
    for _ in range(40):
        transitions = oracle.step()
        ring.store(transitions, state_dim, ACTION)
        own: list[Any] = [part[1:2] for part in transitions]
        alone.store(Transitions(*own)._replace(owners=np.array([0])), state_dim, ACTION)
    for mine, other in zip(ring.sample(16), alone.sample(16), strict=True):
        np.testing.assert_array_equal(mine[1], other)


def test_put_back_it_samples_the_same() -> None:
    oracle = Oracle(stack=3, environments=2, agents=2)
    ring, state_dim = made(oracle, capacity=30, n_step=2)
    for _ in range(33):
        ring.store(oracle.step(), state_dim, ACTION)
    other, _ = made(oracle, capacity=30, n_step=2)
    other.allocate(state_dim, ACTION)
    for name, (table, written) in ring.tables.items():
        other.tables[name][0].copy_(table)
        other.tables[name][1][:] = written
    other.links[..., 1] = -1  # as a checkpoint has it that was written before it was known
    other.restore(ring.tensors())
    for _ in range(5):
        drawn = ring.draw(20)
        np.testing.assert_array_equal(drawn, other.draw(20))
        for mine, theirs in zip(ring.gather(drawn), other.gather(drawn), strict=True):
            assert torch.equal(mine, theirs)
        transitions = oracle.step()
        for each in (ring, other):
            each.store(copy.deepcopy(transitions), state_dim, ACTION)


@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3), (3, 6, 7)])
def test_a_shift_moves_the_picture_and_repeats_its_edge(shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, shape).astype(np.float32)
    first = 1 if shape[0] == 3 else 0
    images = torch.from_numpy(picture.reshape(1, 1, 1, -1)).repeat(1, 3, 2, 1)
    shifts = torch.tensor([[[0, 0], [2, -1], [-9, 9]]])
    found = shifted(images, shape, shifts).numpy().reshape(3, 2, *shape)
    np.testing.assert_array_equal(found[0, 0], picture)
    height, width = 6, 7
    for index, (down, right) in ((1, (2, -1)), (2, (-9, 9))):
        rows = np.clip(np.arange(height) - down, 0, height - 1)
        columns = np.clip(np.arange(width) - right, 0, width - 1)
        expected = picture.take(rows, axis=first).take(columns, axis=first + 1)
        np.testing.assert_array_equal(found[index, 1], expected)


def test_shifts_are_uniform_and_of_both_states_apart() -> None:
    oracle = Oracle(stack=1, environments=1)
    ring, state_dim = made(oracle, capacity=10, random_shift=3)
    for _ in range(10):
        ring.store(oracle.step(), state_dim, ACTION)
    shifts = ring.draw(20_000)[0, :, 1:]
    for column in shifts.T:
        counts = np.bincount(column + 3, minlength=7)
        assert len(counts) == 7
        assert abs(counts / 20_000 - 1 / 7).max() < 0.01
    correlations = np.corrcoef(shifts.T) - np.eye(4)
    assert abs(correlations).max() < 0.05


def test_a_million_frames_stay_within_a_tenth_of_their_raw_size() -> None:
    frame = spaces.Box(0, 255, (84, 84, 3), np.uint8)
    layout = stacked(observation_layout(frame, "Some-v0"), 3)
    ring = FrameReplay(1_000_000, layout)
    needed = ring.room * frames.observation_bytes(layout) + ring.capacity * (4 * 8 + 16)
    assert needed < 1.1 * 1_000_000 * 84 * 84 * 3


def test_images_may_lie_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = Oracle(stack=2, environments=1)
    held, state_dim = made(oracle, capacity=20)
    filed, _ = made(oracle, capacity=20, file=tmp_path / "images")
    for _ in range(30):
        transitions = oracle.step()
        for ring in (held, filed):
            ring.store(transitions, state_dim, ACTION)
    drawn = everything(held)
    assert all(map(torch.equal, held.gather(drawn), filed.gather(drawn)))
    assert (tmp_path / "images").stat().st_size == filed.room * 12 * 11
    filed.close()
    assert not (tmp_path / "images").exists()

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(UserError, match=r"needs 0.0 GB on disk.*No space left"):
        on_disk(tmp_path / "more", (10, 10))
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize("shape", [[8, 12, 3], [12, 8], [3, 12, 8]])
def test_a_shift_leaves_something_of_the_picture(shape: list[int]) -> None:
    FrameReplay(10, {"image": shape}, random_shift=7)
    with pytest.raises(UserError, match=r"random_shift 8 would shift images .* out of sight"):
        FrameReplay(10, {"dict": {"view": {"image": shape}}}, random_shift=8)


def test_a_step_in_which_all_environments_reset_stores_nothing() -> None:
    oracle = Oracle(stack=2, environments=1)
    ring, state_dim = made(oracle, capacity=10)
    happened = oracle.step()
    nothing = Transitions(*(part[:0] for part in happened))
    for transitions, size in ((nothing, 0), (happened, 1), (nothing, 1)):
        ring.store(transitions, state_dim, ACTION)
        assert ring.sizes.tolist() == [size]


def test_images_alone_stay_bytes_until_they_are_seen() -> None:
    ring = FrameReplay(10, {"stack": 2, "of": {"image": [12, 11]}})
    rows = np.zeros((1, 2 * 264 + ACTION + 2), dtype=np.float32)
    ring.store(Transitions(np.zeros(1, int), np.zeros(1, int), rows, np.ones(1, bool)), 264, ACTION)
    batch = ring.gather(ring.draw(4))
    assert batch.state.dtype == batch.next_state.dtype == torch.uint8
    assert batch.reward.dtype == torch.float32

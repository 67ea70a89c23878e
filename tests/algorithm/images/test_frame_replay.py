"""The replay buffer of frames, compared with a reference that stores everything."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from support.frame_oracle import ACTION, SPACE, Oracle

from td3.algorithm.images.frame_replay import FrameReplay
from td3.algorithm.images.frame_storage import allocate_on_disk, observation_bytes
from td3.algorithm.images.random_shift import shift_images
from td3.algorithm.transitions import Transitions
from td3.environments.observations import observation_layout
from td3.errors import UserError
from td3.layout import layout_size, stack_layout


def make_replay(oracle: Oracle, capacity: int, **more: Any) -> tuple[FrameReplay, int]:
    layout = stack_layout(observation_layout(SPACE, "Some-v0"), oracle.stack)
    replay = FrameReplay(
        capacity, layout, environments=oracle.environments, seed=range(oracle.agents), **more
    )
    return replay, layout_size(layout)


def all_transitions(replay: FrameReplay) -> NDArray[np.int64]:
    """Every transition that `draw` can choose, unshifted: (agents, all, 5)."""
    sizes = set(replay.sizes.tolist())
    assert len(sizes) == 1
    numbers = replay.index.oldest[:, None] + np.arange(sizes.pop())
    return np.stack([numbers, *[np.zeros_like(numbers)] * 4], axis=-1)


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("environments", [1, 3])
@pytest.mark.parametrize("ending", [0.0, 0.2, 1.0])
def test_gather_across_episode_ends_rebuilds_every_stack(
    stack: int, environments: int, ending: float
) -> None:
    oracle = Oracle(stack, environments, ending=ending)
    replay, state_dim = make_replay(oracle, capacity=40)
    for _ in range(200 // environments):
        replay.store(oracle.step(), state_dim, ACTION)
        drawn = all_transitions(replay)
        batch = replay.gather(drawn)
        rows = torch.cat(batch, dim=-1)[0].numpy()
        for number, row in zip(drawn[0, :, 0], rows, strict=True):
            np.testing.assert_array_equal(row, oracle.happened[0][number]["row"])
    assert replay.sizes[0] > 15 if ending else replay.sizes[0] == 40


@pytest.mark.parametrize("n_step", [2, 3])
def test_gather_n_steps_stops_at_episode_end(n_step: int) -> None:
    discounts = torch.tensor([0.9, 0.5])
    oracle = Oracle(stack=2, environments=2, agents=2)
    replay, state_dim = make_replay(oracle, capacity=60, n_step=n_step, discount=discounts)
    for _ in range(50):
        replay.store(oracle.step(), state_dim, ACTION)
    agent = 1
    first, last = int(replay.index.oldest[agent]), int(replay.added[agent])
    drawn = np.zeros((2, 20, 5), dtype=np.int64)
    drawn[0, :, 0] = replay.index.oldest[0]
    drawn[agent, :, 0] = np.linspace(first, last - 1, 20)
    batch = replay.gather(drawn)
    happened, discount = oracle.happened[agent], float(discounts[agent])
    for index, number in enumerate(drawn[agent, :, 0]):
        reward, weight = 0.0, 1.0
        future = [h for h in happened[number:] if h["episode"] == happened[number]["episode"]][
            :n_step
        ]
        for entry in future:
            reward += weight * entry["row"][-2]
            continues = weight * (1 - entry["row"][-1])
            weight *= discount
        assert batch.reward[agent, index].item() == pytest.approx(reward, abs=1e-5)
        assert 1 - batch.done[agent, index].item() == pytest.approx(continues, abs=1e-6)
        expected = future[-1]["row"][state_dim : 2 * state_dim]
        np.testing.assert_array_equal(batch.next_state[agent, index], expected)
        np.testing.assert_array_equal(
            batch.state[agent, index], happened[number]["row"][:state_dim]
        )


def test_sample_in_population_equals_sample_alone() -> None:
    oracle = Oracle(stack=2, environments=1, agents=3)
    replay, state_dim = make_replay(oracle, capacity=30, random_shift=1)
    alone = FrameReplay(30, replay.layout, seed=1, random_shift=1)
    for _ in range(40):
        transitions = oracle.step()
        replay.store(transitions, state_dim, ACTION)
        own: list[Any] = [part[1:2] for part in transitions]
        alone.store(Transitions(*own)._replace(owners=np.array([0])), state_dim, ACTION)
    for mine, other in zip(replay.sample(16), alone.sample(16), strict=True):
        np.testing.assert_array_equal(mine[1], other)


def test_restore_from_tables_and_tensors_samples_the_same() -> None:
    oracle = Oracle(stack=3, environments=2, agents=2)
    replay, state_dim = make_replay(oracle, capacity=30, n_step=2)
    for _ in range(33):
        replay.store(oracle.step(), state_dim, ACTION)
    other, _ = make_replay(oracle, capacity=30, n_step=2)
    other.allocate(state_dim, ACTION)
    for name, (table, written) in replay.tables.items():
        other.tables[name][0].copy_(table)
        other.tables[name][1][:] = written
    other.index.links[..., 1] = -1  # as in a checkpoint written before the transition was stored
    other.restore(replay.tensors())
    for _ in range(5):
        drawn = replay.draw(20)
        np.testing.assert_array_equal(drawn, other.draw(20))
        for mine, theirs in zip(replay.gather(drawn), other.gather(drawn), strict=True):
            assert torch.equal(mine, theirs)
        transitions = oracle.step()
        for each in (replay, other):
            each.store(copy.deepcopy(transitions), state_dim, ACTION)


@pytest.mark.parametrize("shape", [(6, 7), (6, 7, 3), (3, 6, 7)])
def test_shift_images_moves_pixels_and_repeats_edges(shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, shape).astype(np.float32)
    first = 1 if shape[0] == 3 else 0
    images = torch.from_numpy(picture.reshape(1, 1, 1, -1)).repeat(1, 3, 2, 1)
    shifts = torch.tensor([[[0, 0], [2, -1], [-9, 9]]])
    found = shift_images(images, shape, shifts).numpy().reshape(3, 2, *shape)
    np.testing.assert_array_equal(found[0, 0], picture)
    height, width = 6, 7
    for index, (down, right) in ((1, (2, -1)), (2, (-9, 9))):
        rows = np.clip(np.arange(height) - down, 0, height - 1)
        columns = np.clip(np.arange(width) - right, 0, width - 1)
        expected = picture.take(rows, axis=first).take(columns, axis=first + 1)
        np.testing.assert_array_equal(found[index, 1], expected)


def test_draw_shifts_are_uniform_and_independent() -> None:
    oracle = Oracle(stack=1, environments=1)
    replay, state_dim = make_replay(oracle, capacity=10, random_shift=3)
    for _ in range(10):
        replay.store(oracle.step(), state_dim, ACTION)
    shifts = replay.draw(20_000)[0, :, 1:]
    for column in shifts.T:
        counts = np.bincount(column + 3, minlength=7)
        assert len(counts) == 7
        assert abs(counts / 20_000 - 1 / 7).max() < 0.01
    correlations = np.corrcoef(shifts.T) - np.eye(4)
    assert abs(correlations).max() < 0.05


def test_million_frames_need_at_most_ten_percent_more_than_raw_size() -> None:
    frame = spaces.Box(0, 255, (84, 84, 3), np.uint8)
    layout = stack_layout(observation_layout(frame, "Some-v0"), 3)
    replay = FrameReplay(1_000_000, layout)
    needed = replay.index.observation_capacity * observation_bytes(layout) + replay.capacity * (
        4 * 8 + 16
    )
    assert needed < 1.1 * 1_000_000 * 84 * 84 * 3


def test_images_on_disk_equal_images_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle = Oracle(stack=2, environments=1)
    held, state_dim = make_replay(oracle, capacity=20)
    filed, _ = make_replay(oracle, capacity=20, file=tmp_path / "images")
    for _ in range(30):
        transitions = oracle.step()
        for replay in (held, filed):
            replay.store(transitions, state_dim, ACTION)
    drawn = all_transitions(held)
    assert all(map(torch.equal, held.gather(drawn), filed.gather(drawn)))
    assert (tmp_path / "images").stat().st_size == filed.index.observation_capacity * 12 * 11
    filed.close()
    assert not (tmp_path / "images").exists()

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(UserError, match=r"needs 0.0 GB on disk.*No space left"):
        allocate_on_disk(tmp_path / "more", (10, 10))
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize("shape", [[8, 12, 3], [12, 8], [3, 12, 8]])
def test_init_shift_as_large_as_image_raises(shape: list[int]) -> None:
    FrameReplay(10, {"image": shape}, random_shift=7)
    with pytest.raises(UserError, match=r"random_shift 8 can move images of .* out of the frame"):
        FrameReplay(10, {"dict": {"view": {"image": shape}}}, random_shift=8)


def test_store_while_all_environments_reset_stores_nothing() -> None:
    oracle = Oracle(stack=2, environments=1)
    replay, state_dim = make_replay(oracle, capacity=10)
    happened = oracle.step()
    nothing = Transitions(*(part[:0] for part in happened))
    for transitions, size in ((nothing, 0), (happened, 1), (nothing, 1)):
        replay.store(transitions, state_dim, ACTION)
        assert replay.sizes.tolist() == [size]


def test_gather_images_only_returns_bytes() -> None:
    replay = FrameReplay(10, {"stack": 2, "of": {"image": [12, 11]}})
    rows = np.zeros((1, 2 * 264 + ACTION + 2), dtype=np.float32)
    replay.store(
        Transitions(np.zeros(1, int), np.zeros(1, int), rows, np.ones(1, bool)), 264, ACTION
    )
    batch = replay.gather(replay.draw(4))
    assert batch.state.dtype == batch.next_state.dtype == torch.uint8
    assert batch.reward.dtype == torch.float32

"""Layouts of observation spaces: images, parts, stacks, refused spaces."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from td3.environments.observations import flattened_images, observation_layout
from td3.environments.task import Task
from td3.errors import RunStopped, UserError
from td3.layout import (
    channel_axis,
    describe_layout,
    flatten,
    has_images,
    layout_size,
    parts_of,
    stack_layout,
)

BOX = spaces.Box(-1, 1, (2,))
COLOUR = spaces.Box(0, 255, (12, 10, 3), np.uint8)
GREY = spaces.Box(0, 255, (12, 10), np.uint8)


def layout_of(space: spaces.Space[Any]) -> dict[str, Any]:
    return observation_layout(space, "Some-v0")


@pytest.mark.parametrize(
    ("space", "image"),
    [
        (COLOUR, True),
        (GREY, True),
        (spaces.Box(0, 255, (3, 64, 64), np.uint8), True),
        (spaces.Box(0, 255, (1, 6), np.uint8), False),
        (spaces.Box(0, 255, (128,), np.uint8), False),
        (spaces.Box(0, 1, (32, 32), np.float32), True),
        (spaces.Box(-1, 1, (32, 32, 3), np.float64), True),
        (spaces.Box(0, 1, (4, 4), np.float32), False),
        (spaces.Box(-np.inf, np.inf, (32, 32), np.float32), False),
        (spaces.Box(-1e6, 1e6, (32, 32), np.float32), False),
        (spaces.Box(0, 1, (400,), np.float32), False),
        (spaces.Dict(view=GREY, speed=BOX), True),
        (spaces.Tuple([BOX, spaces.Dict(view=spaces.Tuple([COLOUR]))]), True),
        (spaces.Dict(speed=BOX), False),
    ],
)
def test_observation_layout_recognizes_images(space: spaces.Space[Any], image: bool) -> None:
    assert has_images(layout_of(space)) == image


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((84, 84, 3), 2),
        ((3, 84, 84), 0),
        ((84, 84), None),
        ((1, 64, 64), 0),
        ((9, 8, 8), 0),
        ((8, 8, 9), 2),
        ((20, 30, 4), 2),
        ((4, 20, 30), 0),
        ((8, 8, 8), 2),
    ],
)
def test_channel_axis_by_shape(shape: tuple[int, ...], axis: int | None) -> None:
    assert channel_axis(shape) == axis


def test_flatten_keeps_bytes() -> None:
    pixels = np.arange(360, dtype=np.uint8).reshape(12, 10, 3)
    state = flatten(layout_of(COLOUR), pixels)
    assert state.dtype == np.float32
    np.testing.assert_array_equal(state.astype(np.uint8).reshape(12, 10, 3), pixels)


def test_flatten_float_image_scales_bounds_to_bytes() -> None:
    space = spaces.Box(-1, 1, (16, 16), np.float32)
    image = np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16)
    np.testing.assert_array_equal(flatten(layout_of(space), image), np.arange(256))


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (GREY, 300, "0 to 300 instead of 0 to 255"),
        (GREY, -3, "-3 to 0 instead of 0 to 255"),
        (spaces.Box(0, 1, (16, 16), np.float32), 1.5, "0 to 1.5 instead of 0 to 1"),
    ],
)
def test_flatten_image_outside_its_bounds_raises(
    space: spaces.Box, value: float, message: str
) -> None:
    image = np.zeros(space.shape)
    image[1, 2] = value
    with pytest.raises(ValueError, match=message):
        flatten(layout_of(space), image)


def test_flatten_clips_pixels_that_rounding_moved_outside() -> None:
    layout = layout_of(spaces.Box(0, 1, (16, 16), np.float32))
    image = np.full((16, 16), 1 + 2e-7, np.float32)
    image[0] = -1e-4
    assert flatten(layout, image).tolist() == [0.0] * 16 + [255.0] * 240


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_observation_with_non_finite_pixel_stops_the_run(odd: float) -> None:
    image = np.zeros((16, 16))
    image[2, 3] = odd
    task = Task.of("Some-v0", spaces.Box(0, 1, (16, 16), np.float32), BOX)
    with pytest.raises(RunStopped, match=r"non-finite observation .* in dimension 35"):
        task.observation(image)


def test_flatten_byte_image_with_narrow_bounds_is_scaled() -> None:
    space = spaces.Box(0, 1, (12, 10), np.uint8)
    assert flatten(layout_of(space), np.ones((12, 10), np.uint8)).tolist() == [255.0] * 120


def test_parts_of_dict_merges_neighbouring_numbers() -> None:
    space = spaces.Dict(a=BOX, b=spaces.Discrete(3), c=GREY, d=BOX)
    layout = layout_of(space)
    found = [(part.start, part.size, part.image) for part in parts_of(layout)]
    assert found == [(0, 5, None), (5, 120, (12, 10)), (125, 2, None)]
    assert describe_layout(stack_layout(layout, 3)) == (
        "3 stacked observations of 5 numbers and an image 12 × 10 and 2 numbers"
    )


@pytest.mark.parametrize(
    "space",
    [BOX, GREY, spaces.MultiDiscrete([2, 3]), spaces.Dict(b=GREY, a=BOX, c=spaces.Tuple([BOX]))],
)
def test_flatten_stack_concatenates_observations(space: spaces.Space[Any]) -> None:
    from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

    space.seed(0)
    each = [space.sample() for _ in range(3)]
    stack = concatenate(space, each, create_empty_array(space, 3))
    assert batch_space(space, 3).contains(stack)
    layout = layout_of(space)
    together = flatten(stack_layout(layout, 3), stack)
    np.testing.assert_array_equal(together, np.concatenate([flatten(layout, o) for o in each]))
    assert layout_size(stack_layout(layout, 3)) == together.size


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(BOX),
        spaces.Graph(BOX, BOX),
        spaces.OneOf([BOX, GREY]),
        spaces.Box(0, 255, (4, 84, 84, 3), np.uint8),
        spaces.Dict({1: BOX, 2: BOX}),  # JSON in a policy file would turn the keys into strings
    ],
    ids=lambda space: type(space).__name__,
)
@pytest.mark.parametrize("nested", [False, True])
def test_task_with_unsupported_space_raises_user_error(
    space: spaces.Space[Any], nested: bool
) -> None:
    given = spaces.Dict(view=GREY, odd=space) if nested else space
    with pytest.raises(UserError, match=r"^[^.]*Some-v0.*\.$"):
        Task.of("Some-v0", given, BOX)


def test_unsupported_part_is_named_in_the_error() -> None:
    space = spaces.Dict(view=GREY, more=spaces.Tuple([BOX, spaces.Dict(name=spaces.Text(5))]))
    films = spaces.Dict(film=spaces.Box(0, 255, (4, 64, 64, 3), np.uint8))
    with pytest.raises(UserError, match=r"\(4, 64, 64, 3\) in 'film'; use height, width"):
        layout_of(films)
    with pytest.raises(UserError, match=r"\(a Text space in 'name' in part 2 in 'more'\)"):
        layout_of(space)


@pytest.mark.parametrize(
    ("space", "shapes"),
    [
        (spaces.Box(0, 255, (20, 24, 3), np.int32), [(20, 24, 3)]),
        (spaces.Box(-np.inf, np.inf, (32, 32), np.float32), [(32, 32)]),
        (spaces.Dict(a=spaces.Box(0, 1, (4, 20, 24), np.float64), b=BOX), []),
        (spaces.Tuple([spaces.Box(0, 1, (4, 20, 24, 3), np.float64), GREY]), [(4, 20, 24, 3)]),
        (spaces.Box(0, 1, (7, 5, 3), np.float32), []),
    ],
)
def test_flattened_images_finds_possible_images(
    space: spaces.Space[Any], shapes: list[tuple[int, ...]]
) -> None:
    assert flattened_images(space) == shapes


@pytest.mark.parametrize("given", [[1, 2], [[1, 0, 1]], [[1], [0], [1]]])
def test_flatten_multi_discrete_with_wrong_shape_raises(given: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"shape .* instead of \(3,\)"):
        flatten(layout_of(spaces.MultiDiscrete([2, 3, 4])), given)


def test_flatten_stack_with_wrong_length_raises() -> None:
    """A longer stack would lose its newest observation."""
    layout = stack_layout(layout_of(spaces.Dict(view=GREY, speed=BOX)), 3)
    fitting = {"view": np.zeros((3, 12, 10)), "speed": np.zeros((3, 2))}
    assert flatten(layout, fitting).shape == (366,)
    with pytest.raises(ValueError, match=r"shape \(5, 2\) instead of 3 stacked, newest last"):
        flatten(layout, fitting | {"speed": np.zeros((5, 2))})
    with pytest.raises(ValueError, match=r"shape \(12, 10\) instead of 3 stacked"):
        flatten(layout, {"view": np.zeros((12, 10)), "speed": np.zeros(2)})

"""Tasks: scaled actions stay in bounds, observations are flat, other spaces are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.long import pick

from td3.environments.observations import observation_layout
from td3.environments.task import Task, action_bounds
from td3.errors import RunStopped, UserError
from td3.layout import flatten

BOX = spaces.Box(-1, 1, (2,))
THOUSANDS = settings(
    max_examples=pick(2000, 10_000), deadline=None, derandomize=True, database=None
)
HUNDREDS = settings(max_examples=300, deadline=None, derandomize=True, database=None)


@st.composite
def action_boxes(draw: st.DrawFn) -> spaces.Box:
    """Asymmetric, tiny, huge, one-sided and empty ranges, different in each dimension."""
    width = draw(st.sampled_from([32, 64]))
    dtype = np.dtype(f"float{width}")
    largest = float(np.finfo(dtype).max)
    marks = [0.0, 1e-30, 1e-3, 1.0, 2.5, 1e30, largest] + ([1e300] if width == 64 else [])
    number = st.one_of(
        st.sampled_from([sign * float(dtype.type(mark)) for mark in marks for sign in (-1, 1)]),
        st.floats(allow_nan=False, allow_infinity=False, width=width),
    )
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    one, other = (draw(hnp.arrays(dtype, shape, elements=number)) for _ in range(2))
    return spaces.Box(np.minimum(one, other), np.maximum(one, other), dtype=dtype.type)


def test_scaled_action_lies_in_the_action_space(
    record_property: Callable[[str, object], None],
) -> None:
    tried = []

    @THOUSANDS
    @given(space=action_boxes(), data=st.data())
    def check(space: spaces.Box, data: st.DataObject) -> None:
        bounds = action_bounds(space, "Any-v0")
        size = int(np.prod(space.shape))
        elements = st.floats(-1, 1, width=32)
        action = data.draw(hnp.arrays(np.float32, size, elements=elements))
        assert space.contains(bounds.scale(action))
        tried.append(space)

    check()
    record_property("cases", len(tried))


@THOUSANDS
@given(space=action_boxes())
def test_scale_maps_the_ends_of_actions_to_the_bounds_and_zero_to_the_middle(
    space: spaces.Box,
) -> None:
    bounds = action_bounds(space, "Any-v0")
    size = int(np.prod(space.shape))
    low, middle, high = (
        bounds.scale(np.full(size, value, dtype=np.float32)) for value in (-1, 0, 1)
    )
    np.testing.assert_array_equal(low, space.low)
    np.testing.assert_array_equal(high, space.high)
    assert (low <= middle).all()
    assert (middle <= high).all()
    np.testing.assert_allclose(middle, space.low / 2 + space.high / 2, rtol=1e-6, atol=1e-44)
    assert {part.dtype for part in (low, middle, high)} == {space.dtype}
    assert low.shape == middle.shape == high.shape == space.shape


def test_scale_is_linear_in_every_dimension() -> None:
    space = spaces.Box(np.array([-1.0, 0.0, 10.0]), np.array([3.0, 1.0, 20.0]), dtype=np.float64)
    scaled = action_bounds(space, "Any-v0").scale(np.array([0.5, -0.5, 0.0]))
    np.testing.assert_allclose(scaled, [2.0, 0.25, 15.0])


def with_bounds(low: float, high: float) -> spaces.Box:
    """A Box that Gymnasium's constructor would refuse."""
    space = spaces.Box(-1, 1, (2,))
    space.low[1], space.high[1] = low, high
    return space


@pytest.mark.parametrize(
    ("space", "advice"),
    [
        (spaces.Box(-np.inf, np.inf, (2,)), "finite low and high"),
        (spaces.Box(-1, np.array([1, np.inf], np.float32)), "finite low and high"),
        (spaces.Box(np.array([-np.inf, 0], np.float32), 1), "finite low and high"),
        (with_bounds(np.nan, 1), "finite low and high"),
        (with_bounds(-1, np.nan), "finite low and high"),
        (with_bounds(2, 1), "low is above high"),
        (spaces.Box(-1, 1, (0,)), "declare a Box"),
        (spaces.Box(-1, 1, (2, 0)), "declare a Box"),
        (spaces.Box(-3, 3, (2,), np.int32), "float dtype"),
        (spaces.Box(0, 255, (2,), np.uint8), "float dtype"),
        (spaces.Discrete(4), "Box action space"),
        (spaces.MultiDiscrete([2, 3]), "Box action space"),
        (spaces.MultiBinary(3), "Box action space"),
        (spaces.Dict(arm=BOX), "Box action space"),
        (spaces.Tuple([BOX]), "Box action space"),
    ],
)
def test_task_with_unsupported_action_space_raises_one_sentence(
    space: spaces.Space[Any], advice: str
) -> None:
    with pytest.raises(UserError) as caught:
        Task.of("Some-v0", BOX, space)
    assert advice in str(caught.value)
    assert is_one_sentence(str(caught.value), "Some-v0")


def is_one_sentence(message: str, env_id: str) -> bool:
    return (
        env_id in message
        and message.endswith(".")
        and not message.endswith("..")
        and ". " not in message
        and "\n" not in message
    )


def observation_boxes() -> st.SearchStrategy[spaces.Box]:
    def box(dtype: Any, shape: tuple[int, ...]) -> spaces.Box:
        return spaces.Box(0, 1 if dtype == np.bool_ else 100, shape, dtype)

    plain = st.sampled_from([np.float32, np.float64, np.int8, np.int64, np.bool_])
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=3)
    byte_vectors = st.integers(1, 5).map(lambda side: box(np.uint8, (side,)))
    return st.one_of(st.builds(box, plain, shapes), byte_vectors)


LEAVES = st.one_of(
    observation_boxes(),
    st.builds(
        lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 5), st.integers(-3, 3)
    ),
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(spaces.MultiDiscrete),
    st.builds(
        lambda start: spaces.MultiDiscrete([[2, 3], [1, 4]], start=[[start, 0], [0, 1]]),
        st.integers(-3, 3),
    ),
    st.integers(1, 5).map(spaces.MultiBinary),
    st.sampled_from([(2, 3), (1, 2, 2)]).map(spaces.MultiBinary),
)
OBSERVATIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
        st.dictionaries(st.sampled_from("cab"), inner, min_size=1).map(spaces.Dict),
    ),
    max_leaves=5,
)


@HUNDREDS
@given(space=OBSERVATIONS, seed=st.integers(0, 2**31 - 1))
def test_observation_equals_gymnasium_flatten(space: spaces.Space[Any], seed: int) -> None:
    space.seed(seed)
    task = Task.of("Any-v0", space, BOX)
    observation = space.sample()
    state = task.observation(observation)
    assert state.dtype == np.float32
    assert state.shape == (task.state_dim,)
    np.testing.assert_array_equal(state, spaces.flatten(space, observation).astype(np.float32))


def test_flatten_dict_uses_the_order_of_the_space() -> None:
    space = spaces.Dict(b=spaces.Box(0, 9, (1,)), a=spaces.Box(0, 9, (2,)))
    layout = observation_layout(space, "Any-v0")
    one = flatten(layout, {"a": [1, 2], "b": [3]})
    other = flatten(layout, {"b": [3], "a": [1, 2]})
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, spaces.flatten(space, {"a": [1, 2], "b": [3]}))


REFUSED = {
    "stacked frames": spaces.Box(0, 255, (4, 84, 84, 3), np.uint8),
    "text": spaces.Text(5),
    "sequence": spaces.Sequence(BOX),
    "graph": spaces.Graph(BOX, BOX),
    "empty image": spaces.Box(0, 255, (0, 20, 3), np.uint8),
    "empty floats": spaces.Box(0, 1, (0, 20, 20), np.float32),
    "empty box": spaces.Box(-1, 1, (0,)),
    "empty dictionary": spaces.Dict(),
    "empty tuple": spaces.Tuple([]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_task_with_unsupported_observation_space_raises_one_sentence(name: str) -> None:
    with pytest.raises(UserError) as caught:
        Task.of("Some-v0", REFUSED[name], BOX)
    assert is_one_sentence(str(caught.value), "Some-v0")


@pytest.mark.parametrize("name", [name for name in REFUSED if not name.startswith("empty")])
def test_task_with_unsupported_nested_space_raises_one_sentence(name: str) -> None:
    with pytest.raises(UserError) as caught:
        Task.of("Some-v0", spaces.Tuple([BOX, spaces.Dict(view=REFUSED[name])]), BOX)
    assert is_one_sentence(str(caught.value), "Some-v0")


def test_byte_vectors_are_not_images() -> None:
    assert Task.of("Some-v0", spaces.Box(0, 255, (128,), np.uint8), BOX).state_dim == 128
    assert Task.of("Some-v0", spaces.Box(0, 255, (1, 6), np.uint8), BOX).state_dim == 6


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        (np.zeros(3), "shape (3,) instead of (2,)"),
        (np.zeros((2, 1)), "shape (2, 1) instead of (2,)"),
        (np.float32(0), "shape () instead of (2,)"),
        (None, "does not match its space"),
        ("words", "does not match its space"),
        ({"pose": 1}, "does not match its space"),
        ([np.nan, 0], "nan in dimension 0"),
        ([0, np.inf], "inf in dimension 1"),
        ([0, -np.inf], "-inf in dimension 1"),
    ],
)
def test_bad_observation_stops_the_run(observation: Any, expected: str) -> None:
    task = Task.of("Some-v0", BOX, BOX)
    with pytest.raises(RunStopped) as caught:
        task.observation(observation)
    assert "Some-v0" in str(caught.value)
    assert "observation" in str(caught.value)
    assert expected in str(caught.value)


PARTS = spaces.Dict(
    x=spaces.Box(-1, 1, (2,)),
    v=spaces.Box(-1, 1, (1,)),
    arm=spaces.Tuple([BOX, spaces.Discrete(3)]),
)


@pytest.mark.parametrize(
    ("part", "value", "expected"),
    [
        ("x", [0, np.nan], "(nan in dimension 1 of observation.x)"),
        ("v", [np.inf], "(inf in dimension 0 of observation.v)"),
        ("arm", ([0, np.nan], 1), "(nan in dimension 1 of observation.arm.0)"),
    ],
)
@pytest.mark.parametrize("stack", [1, 2])
def test_bad_number_in_a_part_of_an_observation_names_the_part(
    part: str, value: Any, expected: str, stack: int
) -> None:
    task = Task.of("Some-v0", PARTS, BOX, stack)
    good = {"x": [0, 0], "v": [0], "arm": ([0, 0], 1)}
    frames = [good, good | {part: value}][-stack:]
    observation: Any = frames[0]
    if stack > 1:
        observation = {key: [frame[key] for frame in frames] for key in ("x", "v")}
        observation["arm"] = tuple(zip(*(frame["arm"] for frame in frames), strict=True))
    with pytest.raises(RunStopped) as caught:
        task.observation(observation)
    assert str(caught.value).endswith(expected)


def test_observation_beyond_float32_stops_the_run_without_warning() -> None:
    task = Task.of("Some-v0", spaces.Box(-np.inf, np.inf, (2,), np.float64), BOX)
    with pytest.raises(RunStopped, match=r"Some-v0 .* observation"):
        task.observation(np.array([0.0, 1e300]))


@pytest.mark.parametrize("number", [1, 6, -1])
def test_observation_outside_a_discrete_space_stops_the_run(number: int) -> None:
    task = Task.of("Some-v0", spaces.Discrete(4, start=2), BOX)
    assert task.observation(2).tolist() == [1, 0, 0, 0]
    assert task.observation(5).tolist() == [0, 0, 0, 1]
    with pytest.raises(RunStopped, match=r"Some-v0 .* observation"):
        task.observation(number)


@pytest.mark.parametrize("missing", [{"pose": [0, 0]}, {}, [0, 0]])
def test_observation_with_missing_part_stops_the_run(missing: Any) -> None:
    task = Task.of("Some-v0", spaces.Dict(pose=BOX, goal=BOX), BOX)
    with pytest.raises(RunStopped, match=r"Some-v0 .* observation"):
        task.observation(missing)


@pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, 1e39, None, np.array([1.0, 2.0]), "x"])
def test_bad_reward_stops_the_run(reward: Any) -> None:
    task = Task.of("Some-v0", BOX, BOX)
    with pytest.raises(RunStopped, match=r"Some-v0 .* reward"):
        task.reward(reward)


@pytest.mark.parametrize("reward", [1, 1.0, True, np.float32(1), np.array(1.0)])
def test_reward_accepts_any_number_type(reward: Any) -> None:
    assert Task.of("Some-v0", BOX, BOX).reward(reward) == 1.0

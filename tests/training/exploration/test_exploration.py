"""Exploration noise: the right distribution, and the same numbers however it is drawn and saved."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from td3.config import EXPLORATIONS, Config, from_dict
from td3.environments.base import Environments
from td3.errors import UserError
from td3.seeding import Streams
from td3.training.collector import Collector
from td3.training.exploration import (
    BUILT_IN,
    NOISE_AHEAD,
    Exploration,
    GaussianExploration,
    OrnsteinUhlenbeckExploration,
    PinkExploration,
    ZetaExploration,
    make_exploration,
)
from td3.training.exploration.pink import pink_noise

ENVIRONMENTS, COMPONENTS, LENGTH = 2, 3, 50


class UniformNoise(Exploration):
    """A user's class without a state of its own."""

    def draw(self, begins: NDArray[np.bool_]) -> NDArray[np.float64]:
        unit = [stream.uniform(-1, 1, self.shape) for stream in self.streams]
        noise: NDArray[np.float64] = 3**0.5 * self.standard_deviation * np.concatenate(unit)
        return noise


class NeedsArgument(UniformNoise):
    def __init__(self, *given: Any, gain: float) -> None:
        super().__init__(*given)
        self.standard_deviation = gain * self.standard_deviation


KINDS: dict[str, Callable[..., Exploration]] = {
    "gaussian": GaussianExploration,
    "ornstein-uhlenbeck": OrnsteinUhlenbeckExploration,
    "pink": lambda *given: PinkExploration(*given, length=LENGTH),
    "zeta": ZetaExploration,
    "of the user": UniformNoise,
}


def make(kind: str = "gaussian", seeds: tuple[int, ...] = (3, 4)) -> Exploration:
    streams = [Streams.from_seed(seed).explore for seed in seeds]
    deviations = [0.1 * (k + 1) for k in range(len(seeds))]
    return KINDS[kind](streams, ENVIRONMENTS, COMPONENTS, deviations)


def begins(step: int, agents: int = 2) -> NDArray[np.bool_]:
    """Episodes of 30 and 45 steps in the two environments of each agent, before and after 0."""
    return np.array([(step + 7) % 30 == 0, (step + 9) % 45 == 0] * agents)


@pytest.mark.parametrize("kind", KINDS)
def test_exploration_of_one_agent_does_not_depend_on_the_others(kind: str) -> None:
    both, first = make(kind), make(kind, (3,))
    for step in range(3 * NOISE_AHEAD):
        alone = first.draw(begins(step, agents=1))
        np.testing.assert_array_equal(both.draw(begins(step))[:ENVIRONMENTS], alone)
    np.testing.assert_array_equal(both.random_actions()[:ENVIRONMENTS], first.random_actions())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [0, 1, LENGTH, NOISE_AHEAD - 1, NOISE_AHEAD, NOISE_AHEAD + 5])
def test_exploration_restored_after_any_step_continues(kind: str, steps: int) -> None:
    original, other = make(kind), make(kind)
    for step in range(steps):
        original.draw(begins(step))
    other.streams = copy.deepcopy(original.streams)  # a checkpoint saves them separately
    other.restore({name: array.copy() for name, array in original.state().items()})
    for step in range(steps, steps + 2 * NOISE_AHEAD):
        np.testing.assert_array_equal(original.draw(begins(step)), other.draw(begins(step)))


@pytest.mark.parametrize("kind", KINDS)
def test_exploration_drawing_ahead_changes_no_number(kind: str) -> None:
    plain, ahead = make(kind), make(kind)
    for step in range(3 * NOISE_AHEAD):
        np.testing.assert_array_equal(plain.draw(begins(step)), ahead.draw(begins(step)))
        ahead.prepare()


@pytest.mark.parametrize("kind", KINDS)
def test_exploration_prepare_draws_nothing_before_the_first_noise(kind: str) -> None:
    one, other = make(kind), make(kind)
    one.prepare()
    np.testing.assert_array_equal(one.random_actions(), other.random_actions())


@pytest.mark.parametrize("kind", KINDS)
def test_exploration_noise_has_the_standard_deviation_of_each_agent(kind: str) -> None:
    exploration = make(kind)
    noise = np.stack([exploration.draw(begins(step)) for step in range(20_000)])
    found = noise.reshape(len(noise), 2, -1).std(axis=(0, 2))
    np.testing.assert_allclose(found, [0.1, 0.2], rtol=0.05)


@pytest.mark.parametrize("before", BUILT_IN)
@pytest.mark.parametrize("after", BUILT_IN)
def test_exploration_restored_from_another_kind_draws_noise(before: str, after: str) -> None:
    one, other = make(before), make(after)
    for step in range(3):
        one.draw(begins(step))
    other.restore(one.state())
    noise = np.stack([other.draw(begins(step)) for step in range(300)])
    assert 0.05 < noise[:, :ENVIRONMENTS].std() < 0.15


def test_gaussian_exploration_draws_what_its_stream_gives() -> None:
    """The use of the stream is part of the file format: a resumed run continues it."""
    stream, exploration = Streams.from_seed(3).explore, make("gaussian", (3,))
    expected = 0.1 * stream.standard_normal((NOISE_AHEAD, ENVIRONMENTS, COMPONENTS))
    drawn = [exploration.draw(begins(step, agents=1)) for step in range(NOISE_AHEAD)]
    np.testing.assert_array_equal(drawn, expected)


def test_ornstein_uhlenbeck_noise_keeps_its_share_and_restarts_with_an_episode() -> None:
    theta, never, now = 0.2, np.array([False]), np.array([True])
    stream = Streams.from_seed(0).explore
    exploration = OrnsteinUhlenbeckExploration([stream], 1, 1, 1.0, theta=theta)
    noise = np.array([exploration.draw(never)[0, 0] for _ in range(50_000)])
    assert np.corrcoef(noise[1:], noise[:-1])[0, 1] == pytest.approx(1 - theta, abs=0.02)
    starts = []
    for _ in range(5_000):
        starts.append([exploration.draw(never)[0, 0], exploration.draw(now)[0, 0]])
    assert abs(np.corrcoef(np.array(starts).T)[0, 1]) < 0.05


def test_zeta_noise_is_held_for_k_steps_with_probability_one_over_k_squared() -> None:
    never = np.array([False])
    exploration = ZetaExploration([Streams.from_seed(0).explore], 1, 1, 1.0)
    noise = np.array([exploration.draw(never)[0, 0] for _ in range(100_000)])
    changes = np.flatnonzero(np.diff(noise))
    held = np.diff(changes)
    weights = np.arange(1.0, 17) ** -2
    found = np.bincount(held, minlength=17)[1:] / len(held)
    np.testing.assert_allclose(found, weights / weights.sum(), atol=0.01)
    assert held.max() == 16


def test_zeta_noise_begins_anew_with_an_episode() -> None:
    exploration = ZetaExploration([Streams.from_seed(0).explore], 1, 1, 1.0)
    noise = [exploration.draw(np.array([True]))[0, 0] for _ in range(100)]
    assert len(set(noise)) == 100


@pytest.mark.parametrize("length", [2, 3, 200, 201])
def test_pink_noise_has_variance_one_in_every_step(length: int) -> None:
    noise = pink_noise(Streams.from_seed(0).explore, length, 20_000)
    np.testing.assert_allclose(noise.var(axis=1), 1, rtol=0.05)


def test_pink_noise_has_power_one_over_frequency() -> None:
    noise = pink_noise(Streams.from_seed(0).explore, 512, 4000)
    power = (np.abs(np.fft.rfft(noise, axis=0)) ** 2).mean(axis=1)[1:-1]
    slope, _ = np.polyfit(np.log(np.arange(1, 256)), np.log(power), 1)
    assert slope == pytest.approx(-1, abs=0.02)


def test_pink_exploration_takes_a_new_block_when_an_episode_begins() -> None:
    exploration = make("pink", (3,))
    stream = Streams.from_seed(3).explore
    blocks = [pink_noise(stream, LENGTH, COMPONENTS) for _ in range(3)]
    start = exploration.draw(np.array([True, True]))
    np.testing.assert_array_equal(start, [0.1 * blocks[0][0], 0.1 * blocks[1][0]])
    later = exploration.draw(np.array([False, True]))
    np.testing.assert_array_equal(later, [0.1 * blocks[0][1], 0.1 * blocks[2][0]])


def config(**loop: Any) -> Config:
    return from_dict({"environment": {"id": "Pendulum-v1"}, "loop": loop})


def build(**loop: Any) -> Exploration:
    return make_exploration(config(**loop), [Streams.from_seed(0).explore], 2, 0.1)


def test_make_exploration_knows_every_name_of_the_setting() -> None:
    assert tuple(BUILT_IN) == EXPLORATIONS
    for name, kind in BUILT_IN.items():
        assert type(build(exploration=name)) is kind


def test_make_exploration_passes_kwargs_and_the_time_limit() -> None:
    pink = build(exploration="pink")
    assert isinstance(pink, PinkExploration)
    assert pink.blocks.shape == (1, 200, 2)
    shorter = build(exploration="pink", exploration_kwargs={"length": 9})
    assert isinstance(shorter, PinkExploration)
    assert shorter.blocks.shape == (1, 9, 2)
    own = build(exploration=f"{__name__}:NeedsArgument", exploration_kwargs={"gain": 3.0})
    np.testing.assert_allclose(own.standard_deviation, 0.3)


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        ({"exploration_kwargs": {"theta": 1.0}}, "loop.exploration gaussian cannot be made with "),
        ({"exploration": f"{__name__}:NeedsArgument"}, "missing a required"),
        ({"exploration": f"{__name__}:KINDS"}, "must be a subclass of td3.Exploration"),
        ({"exploration": "no_such_module:Noise"}, "Cannot import no_such_module, which loop.expl"),
        (
            {"exploration": "ornstein-uhlenbeck", "exploration_kwargs": {"theta": 2}},
            "must be above 0 and at most 1, got 2.",
        ),
        ({"exploration": "pink", "exploration_kwargs": {"length": 1}}, "2 or more, got 1."),
        ({"exploration": "zeta", "exploration_kwargs": {"longest": 0}}, "1 or more, got 0."),
        ({"exploration": "zeta", "exploration_kwargs": {"exponent": "x"}}, "cannot be made with"),
    ],
)
def test_make_exploration_with_bad_setting_raises(loop: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        build(**loop)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


class Standing(Environments):
    """Environments that never step; only their states are read."""

    def __init__(self, count: int) -> None:
        self.states = np.zeros((count, 1), dtype=np.float32)

    def receive(self) -> Any: ...
    def snapshot(self) -> dict[str, NDArray[Any]]:
        return {}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> tuple[list[int], str]:
        return [], ""

    def close(self) -> None: ...


class Recorded(UniformNoise):
    """Remembers what `draw` was told."""

    def draw(self, begins: NDArray[np.bool_]) -> NDArray[np.float64]:
        self.told = begins.copy()
        return super().draw(begins)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"returns": np.array([7.0])}  # the collector has an array of this name too

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.found = arrays


def test_collector_reports_first_steps_of_episodes_except_of_frozen_agents() -> None:
    exploration = Recorded([Streams.from_seed(s).explore for s in (0, 1)], 2, 1, 0.1)
    collector = Collector(Standing(4), 2, exploration)
    collector.lengths[:] = [0, 3, 0, 2]
    collector.add_noise(np.zeros((4, 1), dtype=np.float32))
    assert exploration.told.tolist() == [True, False, True, False]
    collector.frozen[1] = True
    collector.add_noise(np.zeros((4, 1), dtype=np.float32))
    assert exploration.told.tolist() == [True, False, False, False]


def test_collector_keeps_arrays_of_an_exploration_apart_from_its_own() -> None:
    exploration = Recorded([Streams.from_seed(0).explore], 2, 1, 0.1)
    collector = Collector(Standing(2), 1, exploration)
    collector.restore(collector.snapshot())
    assert collector.returns.tolist() == [0, 0]
    assert exploration.found["returns"].tolist() == [7]

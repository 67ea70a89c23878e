"""However an update is executed, it is the same update.

Every mode gets the same batches and draws as eager execution. Planned kernels add in another
order, so the numbers differ by rounding: in float64 by no more than TOLERANCE. In float32 rounding
grows with every update through Adam, which divides small gradients by their own size.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.accelerate import accelerate
from td3.agent import TD3, Diagnostics
from td3.replay import Batch, ReplayBuffer

STATE, ACTION, BATCH, UPDATES = 5, 2, 32, 200
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-3}
SETTINGS = {"discount": 0.98, "tau": 0.01, "policy_noise": 0.3, "noise_clip": 0.4}

# Mode → what puts it in place of `agent.update`. Modes for a GPU skip where there is none.
MODES: dict[str, Callable[[TD3], TD3]] = {"eager": lambda agent: agent, "workspace": accelerate}


def make_agent(seeds: list[int], dtype: torch.dtype = torch.float64, **options: Any) -> TD3:
    return TD3(
        STATE, ACTION, [1.0, 2.0], hidden_sizes=options.pop("hidden_sizes", (24, 16)), seed=seeds,
        actor_learning_rate=1e-3, critic_learning_rate=2e-3, dtype=dtype, **options,
    )  # fmt: skip


def draws_of(seed: int, update: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One agent's transitions and noise, the same whoever stands beside it."""
    rng = np.random.default_rng((seed, update))
    rows = rng.standard_normal((BATCH, 2 * STATE + ACTION + 2))
    rows[:, -1] = rng.random(BATCH) < 0.1
    return rows, rng.standard_normal((BATCH, ACTION))


def given(seeds: list[int], update: int, dtype: torch.dtype) -> tuple[Batch, Tensor]:
    rows, noise = zip(*(draws_of(seed, update) for seed in seeds), strict=True)
    widths = (STATE, STATE, ACTION, 1, 1)
    batch = torch.tensor(np.stack(rows), dtype=dtype).split(widths, dim=-1)
    return Batch(*batch), torch.tensor(np.stack(noise), dtype=dtype)


def train(
    agent: TD3, seeds: list[int], updates: range = range(UPDATES), **settings: Any
) -> list[Diagnostics]:
    dtype = agent.dtype
    return [agent.update(*given(seeds, k, dtype), **(SETTINGS | settings)) for k in updates]


def largest_difference(mine: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    assert mine.keys() == theirs.keys()
    return max(float((mine[k].double() - theirs[k].double()).abs().max()) for k in mine)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("seeds", [[4], [4, 5, 6]], ids=["one", "three"])
def test_every_mode_does_the_same_update(mode: str, dtype: torch.dtype, seeds: list[int]) -> None:
    plain, other = make_agent(seeds, dtype), MODES[mode](make_agent(seeds, dtype))
    before = copy.deepcopy(plain).tensors()
    expected, seen = train(plain, seeds), train(other, seeds)
    assert largest_difference(plain.tensors(), other.tensors()) <= TOLERANCE[dtype]
    assert largest_difference(plain.tensors(), before) > 0.1
    for mine, theirs in zip(seen, expected, strict=True):
        for name, number, right in zip(Diagnostics._fields, mine, theirs, strict=True):
            assert (number is None) == (right is None), name
            if number is not None:
                torch.testing.assert_close(number, right, rtol=0, atol=10 * TOLERANCE[dtype])
    assert other.updates.tolist() == [UPDATES] * len(seeds)
    assert other.critic_optimizer.count.tolist() == [UPDATES] * len(seeds)
    assert other.actor_optimizer.count.tolist() == [UPDATES / 2] * len(seeds)


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_of_a_population_is_what_it_is_alone(mode: str) -> None:
    seeds = [4, 5, 6]
    together = MODES[mode](make_agent(seeds))
    train(together, seeds)
    for k, seed in enumerate(seeds):
        alone = MODES[mode](make_agent([seed]))
        train(alone, [seed])
        member = together.member(k).tensors()
        assert largest_difference(alone.tensors(), member) <= TOLERANCE[torch.float64]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options",
    [{"hidden_sizes": (24,)}, {"hidden_sizes": (40, 24, 16)}, {"normalize_observations": True}],
    ids=["one hidden layer", "three hidden layers", "normalised"],
)
def test_every_network_in_every_mode(mode: str, options: dict[str, Any]) -> None:
    seeds = [1, 2]
    agents = [make_agent(seeds, **options), MODES[mode](make_agent(seeds, **options))]
    for agent in agents:
        train(agent, seeds, range(20))
        if agent.normalizer:  # between updates, as a run does
            agent.normalizer.observe(np.arange(2), np.arange(2.0 * STATE).reshape(2, STATE))
            agent.normalizer.observe(np.arange(2), np.ones((2, STATE)))
        train(agent, seeds, range(20, 40))
    mine, theirs = (agent.tensors() for agent in agents)
    assert largest_difference(mine, theirs) <= TOLERANCE[torch.float64]


@pytest.mark.parametrize("mode", MODES)
def test_numbers_may_differ_between_agents_and_change(mode: str) -> None:
    seeds = [1, 2]
    agents = [make_agent(seeds), MODES[mode](make_agent(seeds))]
    for agent in agents:
        each = {name: torch.tensor([value, value / 2]) for name, value in SETTINGS.items()}
        train(agent, seeds, range(10), **each)
        train(agent, seeds, range(10, 20), **{name: each[name] * 0.9 for name in each})
        train(agent, seeds, range(20, 30), discount=0.5, policy_freq=3)
        rate = torch.tensor([1e-3, 3e-3], dtype=torch.float64)
        agent.actor_optimizer.param_groups[0]["lr"] = rate
        agent.critic_optimizer.param_groups[0]["lr"] = 5e-3
        train(agent, seeds, range(30, 40))
    mine, theirs = (agent.tensors() for agent in agents)
    assert largest_difference(mine, theirs) <= TOLERANCE[torch.float64]


@pytest.mark.parametrize("mode", MODES)
def test_repeated_or_continued_it_is_the_same_to_the_bit(mode: str) -> None:
    seeds = [7, 8]
    whole = MODES[mode](make_agent(seeds, torch.float32))
    train(whole, seeds, range(21))
    saved = {name: tensor.clone() for name, tensor in whole.tensors().items()}
    train(whole, seeds, range(21, 40))
    resumed = MODES[mode](make_agent([1, 2], torch.float32))
    train(resumed, seeds, range(3))  # its plans are made before the numbers are put back
    resumed.restore(saved)
    train(resumed, seeds, range(21, 40))
    assert largest_difference(whole.tensors(), resumed.tensors()) == 0


@pytest.mark.parametrize("mode", MODES)
def test_training_draws_the_same_numbers(mode: str) -> None:
    streams = []
    for chosen in ("eager", mode):
        buffer = ReplayBuffer(100, seed=3)
        for row in np.random.default_rng(0).standard_normal((50, 2 * STATE + ACTION + 1)):
            state, next_state, action, reward = np.split(row, [STATE, 2 * STATE, -1])
            buffer.add((state, next_state, action, reward, 0.0))
        agent = MODES[chosen](make_agent([3], torch.float32))
        agent.train(buffer, 5, BATCH)
        assert agent.updates.tolist() == [5]
        streams.append((agent.smooth[0].random(3).tolist(), buffer.streams[0].random(3).tolist()))
    assert streams[0] == streams[1]

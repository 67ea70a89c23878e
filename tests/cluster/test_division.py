"""How agents are divided into populations."""

import pytest

from td3.cluster.division import agents_of, divide
from td3.config import Config, varied
from td3.errors import UserError

GRID = {"agent.tau": (0.005, 0.01, 0.02), "agent.discount": (0.98, 0.99)}


@pytest.mark.parametrize(
    ("populations", "parts"),
    [
        (1, [(0, 10)]),
        (3, [(0, 4), (4, 3), (7, 3)]),
        (4, [(0, 3), (3, 3), (6, 2), (8, 2)]),
        (99, [(k, 1) for k in range(10)]),
    ],
)
def test_divide_splits_seeds_evenly(populations: int, parts: list[tuple[int, int]]) -> None:
    found = divide(varied(Config(), {"seeds": 10}), populations)
    assert [(own.seed, own.seeds) for own in found] == parts


@pytest.mark.parametrize("populations", [1, 2, 4, 6, 7, 12, 30, 31])
def test_divide_gives_every_agent_to_one_population(populations: int) -> None:
    config = varied(Config(), {"seeds": 5, "seed": 7, "grid": GRID})
    found = divide(config, populations)
    assert len(found) <= populations
    numbers = [number for own in found for number in agents_of(config, own)]
    assert sorted(numbers) == list(range(30))
    for own in found:
        for number, seed in zip(agents_of(config, own), own.agent_seeds, strict=True):
            assert config.agent_seeds[number] == seed
            assert config.combinations[number // 5] in own.combinations


def test_divide_makes_the_largest_population_as_small_as_possible() -> None:
    config = varied(Config(), {"seeds": 2, "grid": {"agent.tau": (0.1, 0.2, 0.3, 0.4)}})
    assert [own.agents for own in divide(config, 4)] == [2, 2, 2, 2]
    assert [own.agents for own in divide(config, 8)] == [1] * 8


def test_divide_into_fewer_than_one_is_refused() -> None:
    with pytest.raises(UserError, match="populations must be 1 or more"):
        divide(Config(), 0)

"""Running normalisation: statistics of every agent, whichever rows arrive together."""

import numpy as np
import pytest
import torch

from td3.algorithm.normalizer import Normalizer

STATE = 4


def make_normalizer(agents: int = 1) -> Normalizer:
    return Normalizer(agents, STATE, torch.float32, torch.device("cpu"))


@pytest.mark.parametrize("environments", [1, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_observe_population_equals_every_agent_alone_exactly(
    environments: int, missing: bool
) -> None:
    rng, agents = np.random.default_rng(0), 3
    together = make_normalizer(agents)
    alone = [make_normalizer() for _ in range(agents)]
    for _ in range(20):
        owners = np.repeat(np.arange(agents), environments)
        states = rng.normal(2, 3, (len(owners), STATE)).astype(np.float32)
        kept = rng.random(len(owners)) < 0.5 if missing else np.full(len(owners), True)
        together.observe(owners[kept], states[kept])
        for owner, state in zip(owners[kept], states[kept], strict=True):
            alone[owner].observe(np.array([0]), state[None])
    for name in ("count", "mean", "spread", "shift", "scale"):
        expected = torch.cat([getattr(one, name) for one in alone])
        assert torch.equal(getattr(together, name), expected), name


def test_observe_many_rows_gives_their_mean_and_standard_deviation() -> None:
    states = np.random.default_rng(1).normal(5, 2, (500, STATE)).astype(np.float32)
    normalizer = make_normalizer()
    normalizer.observe(np.zeros(500, dtype=np.int64), states)
    found = normalizer(torch.from_numpy(states)[None])[0].numpy()
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=1e-5)

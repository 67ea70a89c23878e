"""The GPU learner for images on a simulated device."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from support.frame_oracle import ACTION, SPACE, Oracle
from support.simulated_device import simulate_device

from td3.algorithm.agent import TD3
from td3.algorithm.images.frame_replay import FrameReplay
from td3.config import Config, from_dict
from td3.environments.observations import observation_layout
from td3.execution.gpu.image_learner import SLOTS, GpuImageLearner
from td3.layout import layout_size, stack_layout
from td3.seeding import stream_state
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population

CPU = torch.device("cpu")
AGENT = {"hidden_sizes": [16, 16], "batch_size": 8, "channels": [4], "features": 5}


def parts(
    config: Config, space: spaces.Space[Any], environments: int, kind: type[TD3] = TD3
) -> tuple[Any, ...]:
    layout = stack_layout(observation_layout(space, "none"), 2)
    population = Population(config, CPU)
    agent = kind(
        layout_size(layout),
        ACTION,
        hidden_sizes=config.agent.hidden_sizes,
        layout=layout,
        channels=config.agent.channels,
        features=config.agent.features,
        seed=config.agent_seeds,
    )
    replay = FrameReplay(
        50,
        layout,
        environments=environments,
        n_step=2,
        random_shift=1,
        seed=config.agent_seeds,
        discount=population.number("agent.discount"),
    )
    return agent, replay, Interval(config.agents, CPU), population


@pytest.mark.parametrize("grid", [{}, {"agent.discount": [0.9, 0.5]}], ids=["seeds", "a grid"])
def test_gpu_image_learner_matches_eager_learner(
    grid: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_device(monkeypatch)
    config = from_dict({"agent": AGENT, "environment": {"id": "none"}, "seeds": 2, "grid": grid})
    oracle = Oracle(stack=2, environments=2, agents=config.agents)
    plain = Learner(*parts(config, SPACE, 2))
    fast = GpuImageLearner(*parts(config, SPACE, 2), compiled=False, fused=False)
    for _ in range(45):
        transitions = oracle.step()
        states = transitions.rows[:, : plain.agent.state_dim]
        np.testing.assert_array_equal(plain.act(states), fast.act(states))
        for learner in (plain, fast):
            learner.store(transitions)
            learner.learn(3)
    mine, theirs = plain.agent.tensors(), fast.agent.tensors()
    for name in mine:
        assert torch.equal(mine[name], theirs[name]), name
    assert torch.equal(plain.interval.sums, fast.interval.sums)
    assert (plain.interval.counts == fast.interval.counts).all()
    for name, streams in plain.streams().items():
        pairs = zip(streams, fast.streams()[name], strict=True)
        assert all(stream_state(one) == stream_state(two) for one, two in pairs)
    fast.close()


class OwnNumbers(TD3):
    """Draws numbers of its own, which graphs of images do not upload."""

    own_numbers = 2

    def draw_own(self, stream: Any, out: Any) -> None:
        stream.standard_normal(out=out, dtype=out.dtype)

    def target_action(self, next_state: Any, noise: Any, settings: Any) -> Any:
        noise = noise.smoothing + noise.own.mean(dim=1)[:, None, None]
        return super().target_action(next_state, noise, settings)


class ReadsLoss(TD3):
    """Decides by a number on the device, which no trace represents."""

    def critic_loss(self, *given: Any) -> Any:
        loss = super().critic_loss(*given)
        return 2 * loss if float(loss.detach().sum()) > 0 else loss


@pytest.mark.parametrize("kind", [OwnNumbers, ReadsLoss])
def test_gpu_image_learner_of_a_variant_without_graphs_gives_eager_numbers(
    kind: type[TD3], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_device(monkeypatch)
    config = from_dict({"agent": AGENT, "environment": {"id": "none"}, "seeds": 2})
    oracle, notes = Oracle(stack=2, environments=2, agents=config.agents), []
    plain = Learner(*parts(config, SPACE, 2, kind))
    options: dict[str, Any] = {"compiled": False, "fused": False, "report": notes.append}
    fast = GpuImageLearner(*parts(config, SPACE, 2, kind), **options)
    for _ in range(20):
        transitions = oracle.step()
        for learner in (plain, fast):
            learner.store(transitions)
            learner.learn(1)
    assert len(notes) == 1
    mine, theirs = plain.agent.tensors(), fast.agent.tensors()
    assert [name for name in mine if not torch.equal(mine[name], theirs[name])] == []


def test_gpu_image_learner_on_slow_device_matches_and_frees_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulate_device(monkeypatch, late=True)
    config = from_dict({"agent": AGENT, "environment": {"id": "none"}, "seeds": 2})
    oracle = Oracle(stack=2, environments=2, agents=config.agents)
    plain = Learner(*parts(config, SPACE, 2))
    fast = GpuImageLearner(*parts(config, SPACE, 2), compiled=False, fused=False)
    for _ in range(20):
        transitions = oracle.step()
        for learner in (plain, fast):
            learner.store(transitions)
    for learner in (plain, fast):
        learner.learn(3 * SLOTS)
    torch.cuda.synchronize()
    mine, theirs = plain.agent.tensors(), fast.agent.tensors()
    assert [name for name in mine if not torch.equal(mine[name], theirs[name])] == []
    ring = weakref.ref(fast.replay.images)
    gc.disable()
    try:
        fast.close()
        del fast, learner
        assert ring() is None
    finally:
        gc.enable()

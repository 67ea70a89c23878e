"""Learning from images on a GPU, captured, against plain PyTorch in double precision on a CPU."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from support.frame_oracle import ACTION, SPACE, Oracle

from td3.algorithm.agent import TD3
from td3.algorithm.images.frame_replay import FrameReplay
from td3.config import from_dict
from td3.environments.observations import observation_layout
from td3.execution.gpu.image_learner import GpuImageLearner
from td3.layout import layout_size, stack_layout
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population

UPDATES = 200
LEARNERS: dict[str, Callable[..., Learner]] = {
    "eager": Learner,
    "captured": functools.partial(GpuImageLearner, compiled=False, fused=False),
    "compiled": functools.partial(GpuImageLearner, compiled=True, fused=False),
    "fused": functools.partial(GpuImageLearner, compiled=True, fused=True),
}
AGENT = {"hidden_sizes": [32, 24], "batch_size": 32, "channels": [8, 8], "features": 10}
TOLERANCE = {"double": 1e-9, "single": 3e-2, "tf32": 3e-1, "bf16": 6e-1}
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def trained(make: Callable[..., Learner], agents: int, device: str, numbers: str) -> TD3:
    config = from_dict({"agent": AGENT, "environment": {"id": "none"}, "seeds": agents})
    layout = stack_layout(observation_layout(SPACE, "none"), 2)
    dtype = torch.float64 if numbers == "double" else torch.float32
    own: dict[str, Any] = {"seed": config.agent_seeds, "device": device, "dtype": dtype}
    agent = TD3(
        layout_size(layout),
        ACTION,
        hidden_sizes=config.agent.hidden_sizes,
        layout=layout,
        channels=config.agent.channels,
        features=config.agent.features,
        actor_learning_rate=3e-4,
        critic_learning_rate=3e-4,
        **own,
    )
    if numbers == "bf16":
        assert agent.encoder is not None
        for encoder in (agent.encoder, agent.encoder_target):
            encoder.convolution_dtype = torch.bfloat16
    replay = FrameReplay(100, layout, environments=2, n_step=2, random_shift=1, **own)
    place = torch.device(device)
    learner = make(agent, replay, Interval(agents, place), Population(config, place))
    oracle = Oracle(stack=2, environments=2, agents=agents)
    for _ in range(UPDATES // 4):
        learner.store(oracle.step())
        learner.learn(4)
    learner.close()
    return agent


def distance(found: TD3, agents: int) -> float:
    """Distance to the reference, relative to how far its networks and targets moved."""
    after = trained(Learner, agents, "cpu", "double").tensors()
    seeds = list(range(agents))
    layout = stack_layout(observation_layout(SPACE, "none"), 2)
    before = TD3(
        layout_size(layout),
        ACTION,
        hidden_sizes=AGENT["hidden_sizes"],
        layout=layout,  # type: ignore[arg-type]
        channels=AGENT["channels"],
        features=AGENT["features"],
        seed=seeds,
        dtype=torch.float64,  # type: ignore[arg-type]
    ).tensors()
    names = [name for name in after if "layer" in name and "optimizer" not in name]
    moved = sum(float((after[n] - before[n]).square().sum()) for n in names)
    mine = found.tensors()
    error = sum(float((after[n] - mine[n].cpu().double()).square().sum()) for n in names)
    return float(np.sqrt(error / moved))


def test_single_precision_on_a_cpu() -> None:
    assert 0 < distance(trained(Learner, 2, "cpu", "single"), 2) <= TOLERANCE["single"]


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("numbers", ["double", "single", "bf16"])
@pytest.mark.parametrize("mode", LEARNERS)
def test_on_a_gpu(
    mode: str, numbers: str, agents: int, record_property: Callable[[str, object], None]
) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    error = distance(trained(LEARNERS[mode], agents, "cuda", numbers), agents)
    record_property("distance", error)
    # Fused kernels always multiply single precision in tf32.
    assert error <= TOLERANCE["tf32" if (mode, numbers) == ("fused", "single") else numbers]


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("numbers", ["single", "bf16"])
def test_captured_is_what_is_captured(numbers: str, agents: int) -> None:
    """To the last bit: the same kernels, in the same order."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.deterministic = True
    plain, captured = (
        trained(LEARNERS[mode], agents, "cuda", numbers).tensors() for mode in ("eager", "captured")
    )
    different = [name for name in plain if not torch.equal(plain[name], captured[name])]
    assert different == []


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("shift", [0, 2])
@pytest.mark.parametrize("shapes", [[(9, 7, 3)], [(3, 9, 7)], [(12, 10)], [(8, 8, 3), (3, 70, 60)]])
def test_images_picked_by_a_kernel_are_those_that_were_stored(
    shapes: list[tuple[int, ...]], shift: int
) -> None:
    from td3.execution.gpu.fused import fuse_image_gather

    images = {f"image {k}": spaces.Box(0, 255, shape, np.uint8) for k, shape in enumerate(shapes)}
    space = spaces.Dict({"numbers": spaces.Box(-1, 1, (4,), np.float32), **images})
    layout = stack_layout(observation_layout(space, "none"), 3)
    ring = FrameReplay(40, layout, n_step=2, random_shift=shift, seed=[0, 1], device="cuda")
    ring.allocate(layout_size(layout), ACTION)
    ring.images.random_(0, 256)
    for table in (ring.numbers, ring.rows):
        table.uniform_()
    for table in (ring.index.ends, ring.index.links):
        table.random_(0, ring.capacity)
    ring.added[:] = ring.index.observed[:] = ring.capacity
    drawn = torch.from_numpy(ring.draw(16)).to("cuda")
    fast = copy.copy(ring)
    fuse_image_gather(fast)
    for plain, picked in zip(ring.assemble(drawn), fast.assemble(drawn), strict=True):
        assert torch.equal(plain, picked)

"""Every learner against eager PyTorch in double precision.

All have the same replay buffer and draw from the same streams. TOLERANCE limits the distance after
200 updates, relative to the distance that the parameters moved. Adam divides small gradients by
their own size, so rounding errors grow with every update, also in eager PyTorch.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from td3.algorithm.agent import TD3
from td3.algorithm.replay import ReplayBuffer
from td3.config import from_dict
from td3.execution import CpuLearner
from td3.execution.gpu.learner import GpuLearner
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population

STATE, ACTION, UPDATES, RING = 17, 6, 200, 500
SETTINGS: dict[str, Any] = {
    "environment": {"id": "none"},
    "agent": {"hidden_sizes": [64, 48], "batch_size": 64},
}
DOUBLE, SINGLE = torch.float64, torch.float32
TOLERANCE = {"double": 1e-9, "single": 3e-2, "tf32": 3e-1}

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
Make = Callable[..., Learner]


def gpu(**options: bool) -> Make:
    return lambda *parts: GpuLearner(*parts, **options)


# name → device, dtype, tolerance, learner
MODES: dict[str, tuple[str, torch.dtype, str, Make]] = {
    "eager": ("cpu", SINGLE, "single", Learner),
    "cpu plan, double": ("cpu", DOUBLE, "double", CpuLearner),
    "cpu plan": ("cpu", SINGLE, "single", CpuLearner),
    "eager on a GPU, double": ("cuda", DOUBLE, "double", Learner),
    "cuda graph, double": ("cuda", DOUBLE, "double", gpu(compiled=False, fused=False)),
    "cuda graph": ("cuda", SINGLE, "single", gpu(compiled=False, fused=False)),
    "compiled, double": ("cuda", DOUBLE, "double", gpu(compiled=True, fused=False)),
    "compiled": ("cuda", SINGLE, "single", gpu(compiled=True, fused=False)),
    "fused": ("cuda", SINGLE, "tf32", gpu(compiled=True, fused=True)),
}


def marks(mode: str) -> list[pytest.MarkDecorator]:
    return [GPU, pytest.mark.gpu] if MODES[mode][0] == "cuda" else []


def train_learner(seeds: tuple[int, ...], device: str, dtype: torch.dtype, make: Make) -> Learner:
    config = from_dict({**SETTINGS, "seeds": len(seeds), "seed": seeds[0]})
    agent = TD3(
        STATE,
        ACTION,
        hidden_sizes=config.agent.hidden_sizes,
        seed=seeds,
        device=device,
        dtype=dtype,
        actor_learning_rate=3e-4,
        critic_learning_rate=3e-4,
    )
    replay = ReplayBuffer(RING, seed=seeds, device=device, dtype=dtype)
    replay.allocate(STATE, ACTION)
    assert replay.rows is not None
    for row, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(RING, 2 * STATE + ACTION + 2))
        rows[:, 2 * STATE : 2 * STATE + ACTION] = rng.uniform(-1, 1, (RING, ACTION))
        rows[:, -1] = rng.random(RING) < 0.05
        replay.rows[row] = torch.from_numpy(rows).to(replay.rows)
    replay.added[:] = RING
    population = Population(config, torch.device(device))
    learner = make(agent, replay, Interval(len(seeds), torch.device(device)), population)
    for updates in (1, 50, UPDATES - 51):  # a block of random numbers ends in between
        learner.learn(updates)
    return learner


@cache
def reference(seeds: tuple[int, ...]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The agent before and after training with eager PyTorch in double precision."""
    start = TD3(STATE, ACTION, hidden_sizes=SETTINGS["agent"]["hidden_sizes"], seed=seeds)
    return start.tensors(), train_learner(seeds, "cpu", DOUBLE, Learner).agent.tensors()


def distance(agent: TD3, seeds: tuple[int, ...]) -> float:
    """Distance to the reference, relative to how far its networks and targets moved."""
    before, after = reference(seeds)
    found = agent.tensors()
    names = [name for name in after if "layer" in name and "optimizer" not in name]
    moved = sum(float((after[n] - before[n]).double().square().sum()) for n in names)
    error = sum(float((after[n] - found[n].cpu()).double().square().sum()) for n in names)
    assert moved > 0
    return float(np.sqrt(error / moved))


@pytest.mark.parametrize("seeds", [(4,), (4, 5, 6), tuple(range(4, 13))], ids=len)
@pytest.mark.parametrize("mode", [pytest.param(m, marks=marks(m)) for m in MODES])
def test_learn_in_every_mode_matches_double_precision(
    mode: str, seeds: tuple[int, ...], record_property: Callable[[str, object], None]
) -> None:
    device, dtype, tolerance, make = MODES[mode]
    torch.backends.cuda.matmul.allow_tf32 = tolerance == "tf32"
    learner = train_learner(seeds, device, dtype, make)
    error = distance(learner.agent, seeds)
    record_property("distance", error)
    print(f"{mode}, {len(seeds)} agents: {error:.1e}")
    assert error <= TOLERANCE[tolerance]
    assert learner.agent.updates.tolist() == [UPDATES] * len(seeds)
    assert learner.interval.counts.tolist() == [[UPDATES, UPDATES, UPDATES / 2]] * len(seeds)
    assert torch.isfinite(learner.interval.sums).all()


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("networks", [2, 20])
@pytest.mark.parametrize("outputs", [1, 6])
@pytest.mark.parametrize("hidden", [(256, 256), (100, 200), (64, 48)])
def test_fused_mlp_matches_compute_and_its_gradients(
    networks: int, outputs: int, hidden: tuple[int, int]
) -> None:
    from td3.algorithm.stacked import StackedMLP
    from td3.execution.gpu.fused import FusedMLP

    network = StackedMLP((networks,), (23, *hidden, outputs), DOUBLE, "cuda")
    torch.manual_seed(0)
    torch.nn.init.uniform_(network.flat, -0.1, 0.1)
    x = torch.randn(networks, 200, 23, device="cuda", dtype=DOUBLE)
    top = torch.randn(networks, 200, outputs, device="cuda", dtype=DOUBLE)
    found = []
    for compute, dtype in ((network.compute, DOUBLE), (FusedMLP(network.widths), SINGLE)):
        given = x.to(dtype).detach().requires_grad_()
        flat = network.flat.detach().to(dtype).requires_grad_()
        out = compute(given, flat)
        out.backward(top.to(dtype))
        assert given.grad is not None
        assert flat.grad is not None
        found.append([part.double() for part in (out.detach(), given.grad, flat.grad)])
    numbers = sum(network.sizes[:-1])
    assert (found[1][2][:, numbers:] == 0).all()
    for exact, fused, limit in zip(*found, (5e-3, 5e-2, 5e-2), strict=True):
        assert (exact - fused).norm() / exact.norm() < limit


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("agents", [1, 3, 9])
@pytest.mark.parametrize("capacity", [1, 17, 64])
@pytest.mark.parametrize("batch", [5, 64])
@pytest.mark.parametrize("position", [3, 45])
def test_pick_gathers_the_same_rows_as_indexing(
    agents: int, capacity: int, batch: int, position: int
) -> None:
    from td3.execution.gpu.fused import pick

    generator = torch.Generator("cuda").manual_seed(0)
    rings = torch.randn(agents + 1, capacity, 42, device="cuda", generator=generator)
    uniform = torch.rand(2, agents, 32, batch, dtype=DOUBLE, device="cuda", generator=generator)
    sizes = torch.randint(1, capacity + 1, (agents, 1), device="cuda", generator=generator)
    given = {
        "uniform": uniform,
        "sizes": sizes,
        "position": torch.tensor([position], device="cuda"),
    }
    picked, ring = (
        torch.zeros(agents * batch, 42, device="cuda"),
        rings[1:],
    )  # like the replay buffer of a member
    pick(ring, given, picked)
    places = (uniform[position // 32, :, position % 32] * sizes).long()
    expected = torch.stack([own[places[k]] for k, own in enumerate(ring)])
    assert torch.equal(picked, expected.flatten(0, 1))

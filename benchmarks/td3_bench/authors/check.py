"""Compare the captured update of the authors' code with the plain one."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.td3_bench.authors import load_module
from benchmarks.td3_bench.authors.captured import (
    CapturedTD3,
    TableBuffer,
    make_capturable,
    weights,
)

STATES, ACTIONS, BATCH = 17, 6, 256  # Walker2d and HalfCheetah
TRANSITIONS = 2000
UPDATES = 100
# Of the distance that the weights move in one update. On the device, Adam counts in float32, so
# 1 - 0.999**count is wrong by up to 6e-5. Later updates amplify this: 100 updates prove nothing.
TOLERANCE = 1e-4


def compare_sampling(source: Path) -> bool:
    """Whether both replay buffers give the same batches bit for bit."""
    torch_device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    theirs = load_module(source, "utils").ReplayBuffer(STATES, ACTIONS, TRANSITIONS)
    ours = TableBuffer(STATES, ACTIONS, TRANSITIONS, BATCH, torch_device)
    fill(theirs, TRANSITIONS + 300)
    fill(ours, TRANSITIONS + 300)
    np.random.seed(1)  # noqa: NPY002
    expected = theirs.sample(BATCH)
    np.random.seed(1)  # noqa: NPY002
    ours.draw()
    return all(map(torch.equal, expected, ours.sample(BATCH)))


def compare_updates(source: Path, dtype: torch.dtype, updates: int) -> dict[str, float]:
    """The largest distance of captured from plain weights, as a share of the distance moved.

    The noise of each update starts from the same state of the generator. "capturable" compares
    with the plain update whose Adam counts on the device; this should be 0.
    """
    torch.manual_seed(0)
    first = load_module(source, "TD3").TD3(STATES, ACTIONS, 1.0)
    for network in (first.actor, first.critic, first.actor_target, first.critic_target):
        network.to(dtype)
    plain, capturable = copy.deepcopy(first), copy.deepcopy(first)
    make_capturable(capturable)
    buffer = TableBuffer(STATES, ACTIONS, TRANSITIONS, BATCH, torch.device("cuda"))
    buffer.dtype = dtype
    fill(buffer, TRANSITIONS)
    start = [tensor.clone() for tensor in weights(first)]
    captured = CapturedTD3(copy.deepcopy(first), buffer, STATES)
    run(captured, buffer, updates, draw=False)
    run(plain, buffer, updates, draw=True)
    run(capturable, buffer, updates, draw=True)
    moved = distance(weights(plain), start)
    found = weights(captured.agent)
    return {
        "plain": distance(found, weights(plain)) / moved,
        "capturable": distance(found, weights(capturable)) / moved,
    }


def run(agent: Any, buffer: TableBuffer, updates: int, draw: bool) -> None:
    np.random.seed(2)  # noqa: NPY002
    for update in range(updates):
        torch.manual_seed(update)
        if draw:  # the captured agent draws itself
            buffer.draw()
        agent.train(buffer, BATCH)


def distance(one: list[torch.Tensor], other: list[torch.Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def fill(buffer: Any, transitions: int) -> None:
    stream = np.random.default_rng(0)
    for _ in range(transitions):
        state, action, next_state = map(stream.normal, (0, 0, 0), (1, 1, 1), (17, 6, 17))
        buffer.add(state, action, next_state, stream.normal(), float(stream.random() < 0.01))


def check(source: Path) -> dict[str, Any]:
    """Return the comparison; `passed` is False if something differs."""
    found: dict[str, Any] = {"batches_equal": compare_sampling(source)}
    passed = found["batches_equal"]
    if torch.cuda.is_available():
        found["float64"] = compare_updates(source, torch.float64, UPDATES)
        found["float32"] = compare_updates(source, torch.float32, UPDATES)
        found["one_update"] = compare_updates(source, torch.float64, 1)
        passed = passed and are_equal(found)
    return found | {"passed": bool(passed), "updates": UPDATES}


def are_equal(found: dict[str, Any]) -> bool:
    """Whether capturing changed nothing, and Adam on the device nothing but its rounding."""
    graphs = [found[name]["capturable"] for name in ("float64", "float32", "one_update")]
    return bool(max(graphs) == 0 and found["one_update"]["plain"] < TOLERANCE)

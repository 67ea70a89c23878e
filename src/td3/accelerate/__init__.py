"""How an update is executed: everything here wraps the agent's own `update`.

`trace.py` notes down what that does; `planned.py` runs it on a CPU, as a `plan.py` of `kernels.py`;
`captured.py` on a GPU, with `traffic.py` for what a step exchanges with it, `sending.py` for random
numbers, and `fused.py` for its own kernels; `captured_frames.py` where states are images or stacks.
`threads.py` chooses how many CPU threads.
"""

import os
import shutil
from importlib.util import find_spec
from typing import Literal

import torch

from td3.accelerate.planned import Planned
from td3.agent import TD3
from td3.frames import FrameReplay
from td3.learner import Learner
from td3.metrics import Interval
from td3.population import Population
from td3.replay import ReplayBuffer


def compute_on(name: str, threads: int) -> torch.device:
    """Use this device and so many CPU threads from now on."""
    device = torch.device(name)
    if device.index is not None:  # else the current one, as ever
        torch.cuda.set_device(device)
    torch.set_num_threads(max(1, threads))
    return device


def make_learner(
    agent: TD3,
    replay: ReplayBuffer,
    interval: Interval,
    population: Population,
    execution: Literal["auto", "eager"] = "auto",
    precision: Literal["tf32", "float32", "bf16"] = "tf32",
) -> Learner:
    """The fastest way to train on the agent's device that is certain to be right."""
    parts = (agent, replay, interval, population)
    if agent.device.type == "cuda":
        fast = precision != "float32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = fast
        torch.backends.cudnn.deterministic = True  # or a resumed run would not be exact
        if agent.encoder and precision == "bf16":
            for encoder in (agent.encoder, agent.encoder_target):
                encoder.use(torch.bfloat16)
    by_observation = isinstance(replay, FrameReplay)
    on_gpu = agent.device.type == "cuda" and replay.device == agent.device
    if execution == "auto" and isinstance(replay, FrameReplay) and on_gpu:
        from td3.accelerate.captured_frames import CapturedFrames

        return CapturedFrames(agent, replay, interval, population)
    if execution == "eager" or by_observation:
        return Learner(*parts)
    if agent.device.type == "cpu":
        return Planned(*parts)
    from td3.accelerate.captured import Captured

    compiled = can_compile()
    return Captured(*parts, compiled=compiled, fused=compiled and precision != "float32")


def can_compile() -> bool:
    """Whether Triton, in which Inductor writes its kernels too, is here and finds a compiler."""
    compilers = (os.environ.get("CC", "cc"), "gcc", "clang")
    return find_spec("triton") is not None and any(map(shutil.which, compilers))

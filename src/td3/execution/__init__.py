"""How an update is executed: everything here wraps the agent's own `update`.

`trace.py` notes down what that does; `planned.py` runs it on a CPU, as a `plan.py` of `kernels.py`;
`captured.py` on a GPU, with `traffic.py` for what a step exchanges with it, `sending.py` for random
numbers, and `fused.py` for its own kernels; `captured_frames.py` where states are images or stacks.
`threads.py` chooses how many CPU threads.
"""

import os
import shutil
import warnings
from importlib.util import find_spec
from typing import Any, Literal

import torch

from td3.algorithm.agent import TD3
from td3.algorithm.images.frame_replay import FrameReplay
from td3.algorithm.replay import ReplayBuffer
from td3.execution.cpu.learner import CpuLearner
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population


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
    on_gpu = agent.device.type == "cuda"
    if on_gpu:
        prepare_gpu(agent, precision)
    by_observation = isinstance(replay, FrameReplay)
    far = on_gpu and replay.device != agent.device
    if execution == "eager" or (by_observation and (far or not on_gpu)):
        return Learner(agent, replay, interval, population)
    if not on_gpu:
        return CpuLearner(agent, replay, interval, population)
    from td3.execution.gpu.image_learner import GpuImageLearner
    from td3.execution.gpu.learner import GpuLearner

    compiled = can_compile()
    how: dict[str, Any] = {"compiled": compiled, "fused": compiled and precision != "float32"}
    if isinstance(replay, FrameReplay):
        return GpuImageLearner(agent, replay, interval, population, **how)
    return GpuLearner(agent, replay, interval, population, **how)


def prepare_gpu(agent: TD3, precision: str) -> None:
    """How it multiplies and convolves."""
    # Inductor's advice, to those who asked for float32.
    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores", UserWarning)
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    torch.backends.cudnn.allow_tf32 = precision != "float32"
    torch.backends.cudnn.deterministic = True  # or a resumed run would not be exact
    if "encoder" in agent.trained and precision == "bf16":
        agent.trained["encoder"].online.use(torch.bfloat16)
        agent.trained["encoder"].target.use(torch.bfloat16)


def can_compile() -> bool:
    """Whether Triton, in which Inductor writes its kernels too, is here and finds a compiler."""
    compilers = (os.environ.get("CC", "cc"), "gcc", "clang")
    return find_spec("triton") is not None and any(map(shutil.which, compilers))

"""Execute the agent's own `update` fast. There is one update; this package only runs it.

1. Eager: `training.learner.Learner` calls `update`. Always correct, and the reference for tests.
2. On a CPU: `trace.py` runs `update` once and records its operations as a graph. `cpu/compiler.py`
   turns the graph into a plan: a list of kernel calls (`cpu/kernels.py`) on memory that is
   allocated once. `cpu/learner.py` executes the plan for every update.
3. On a GPU: the same graph, with fused kernels for networks and Adam (`gpu/fused.py`,
   `gpu/triton_kernels.py`), compiled by Inductor and captured as a CUDA graph (`gpu/graph.py`).
   `gpu/learner.py` launches it, or `gpu/image_learner.py` if states are images or stacks.
   Uploads run at the same time: `gpu/transfers.py` for states and transitions,
   `gpu/random_upload.py` for random numbers.

There are always two graphs: with the delayed steps 13 to 15 and without. `replaceable.py` decides
where a fused kernel may replace a method, `context.py` holds what is updated, and `threads.py`
measures how many CPU threads are fastest.
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
from td3.algorithm.replay_base import Replay
from td3.execution.checked import Report
from td3.execution.cpu.learner import CpuLearner
from td3.training.learner import Learner
from td3.training.metrics import Interval
from td3.training.population import Population


def compute_on(name: str, threads: int) -> torch.device:
    """Use this device and this number of CPU threads from now on."""
    device = torch.device(name)
    if device.index is not None:  # without an index, the current device stays
        torch.cuda.set_device(device)
    torch.set_num_threads(max(1, threads))
    return device


def make_learner(
    agent: TD3,
    replay: Replay,
    interval: Interval,
    population: Population,
    execution: Literal["auto", "eager"] = "auto",
    precision: Literal["tf32", "float32", "bf16"] = "tf32",
    check: bool = True,
    report: Report = lambda message: None,
) -> Learner:
    """The fastest learner that supports this agent, its device and its replay buffer."""
    on_gpu = agent.device.type == "cuda"
    if on_gpu:
        prepare_gpu(agent, precision)
    if execution == "eager":
        return Learner(agent, replay, interval, population)
    if isinstance(replay, ReplayBuffer) and not on_gpu:
        return CpuLearner(agent, replay, interval, population, check=check, report=report)
    compiled = can_compile()
    fused = compiled and precision != "float32"
    options: dict[str, Any] = {"compiled": compiled, "fused": fused}
    options |= {"check": check, "report": report}
    if isinstance(replay, ReplayBuffer):
        from td3.execution.gpu.learner import GpuLearner

        return GpuLearner(agent, replay, interval, population, **options)
    if isinstance(replay, FrameReplay) and on_gpu and replay.device == agent.device:
        from td3.execution.gpu.image_learner import GpuImageLearner

        return GpuImageLearner(agent, replay, interval, population, **options)
    return Learner(agent, replay, interval, population)


def prepare_gpu(agent: TD3, precision: str) -> None:
    """Set the precision of matrix products and convolutions."""
    # Inductor recommends TF32; a user who asked for float32 need not see that.
    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores", UserWarning)
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    torch.backends.cudnn.allow_tf32 = precision != "float32"
    torch.backends.cudnn.deterministic = True  # otherwise a resumed run would differ
    if "encoder" in agent.trained and precision == "bf16":
        agent.trained["encoder"].online.convolution_dtype = torch.bfloat16
        agent.trained["encoder"].target.convolution_dtype = torch.bfloat16


def can_compile() -> bool:
    """Whether Inductor can compile: it needs Triton and a C compiler."""
    compilers = (os.environ.get("CC", "cc"), "gcc", "clang")
    return find_spec("triton") is not None and any(map(shutil.which, compilers))

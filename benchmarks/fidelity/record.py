"""The first steps of `td3 evaluate`, with the machine's sine or with the page's.

MuJoCo takes sine and cosine from the machine's C library. Their last digit depends on library and
processor: glibc with fused multiply-add, glibc without it and musl, which WebAssembly uses, differ.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from td3.environments.environment import Environment
from td3.play.entries import tasks
from td3.policy.evaluation import episode_seeds
from td3.policy.load import load_policy

SEED, STEPS = 1_000_000, 300
SOURCE = Path(__file__).with_name("trigonometry.c")
Recorded = dict[str, Any]


def record(task: str, nudge: float = 0.0, actions: Any = None) -> Recorded:
    """The first steps of `td3 evaluate`; or the given actions, from a start moved by `nudge`."""
    policy = load_policy(pretrained=task)
    environment = Environment(policy.environment)
    data = environment.env.unwrapped.data  # type: ignore[attr-defined]
    seen: Recorded = {"task": task, "seed": SEED, "states": [], "actions": [], "rewards": []}
    seen["observations"] = [environment.reset(seed=episode_seeds(SEED, 1)[0])]
    data.qpos[1] += nudge
    over = False
    while len(seen["actions"]) < STEPS and not over:
        state = {name: getattr(data, name).tolist() for name in ("qpos", "qvel", "qacc_warmstart")}
        seen["states"].append(state)
        step = len(seen["actions"])
        action = actions[step] if actions else policy.act(seen["observations"][-1])
        seen["actions"].append(action)
        observation, reward, terminated, truncated = environment.step(action)
        seen["observations"].append(observation)
        seen["rewards"].append(reward)
        over = terminated or truncated
    environment.close()
    return seen


def has_compiler() -> bool:
    """Whether `record_with_page_sine` works here: a compiler with quadruple precision."""
    return sys.platform == "linux" and os.uname().machine == "x86_64" and bool(shutil.which("gcc"))


def record_with_page_sine(folder: Path) -> dict[str, Recorded]:
    """The same for all tasks, in a process in which sine and cosine are those of the page."""
    library = folder / "trigonometry.so"
    options = ["-O2", "-fno-builtin", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["gcc", *options, str(SOURCE), "-o", str(library)], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fidelity.record"],
        env={**os.environ, "LD_PRELOAD": str(library)},
        cwd=SOURCE.parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return {own["task"]: own for own in json.loads(done.stdout)}


if __name__ == "__main__":
    json.dump([record(task) for task in tasks()], sys.stdout, default=np.ndarray.tolist)

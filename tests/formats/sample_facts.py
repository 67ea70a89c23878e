"""The results of stored policies and agents, and what they depend on.

`make_samples.py` stores these facts; `test_samples.py` computes them again with today's code.
"""

import importlib.metadata
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np

import td3

AGENTS = {"one": [3], "two": [3, 4]}
"""Stored agent → seeds of its members."""
PACKAGES = ("torch", "numpy", "gymnasium", "opencv-python-headless", "pygame-ce")


def policy_facts(file: Path) -> dict[str, Any]:
    """A policy's actions for three fixed observations, and its return in one episode."""
    policy, rng = td3.load_policy(file), np.random.default_rng(0)
    name = file.parts[-4] if file.parts[-3] in ("run", "end") else ""
    shape = {"images": (3, 16, 16), "stacked": (3, 3)}.get(name, (3,))
    seen = [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]
    if name == "images":
        seen = [rng.integers(256, size=shape, dtype=np.uint8) for _ in range(3)]
    actions = [policy(observation).tolist() for observation in seen]
    return {"actions": actions, "return": float(policy.evaluate(1).returns[0])}


def agent_facts(folder: Path, name: str) -> dict[str, Any]:
    """A stored agent's actions: as loaded, and after it is trained further."""
    seeds = AGENTS[name]
    agent, states = make_agent(seeds), np.linspace(-1, 1, 3 * len(seeds)).reshape(len(seeds), 3)
    agent.load(name, folder)
    loaded = act(agent, states)
    # Noise of 0.2 clipped at 0.5 in units of the action, as at the time of the oldest samples.
    agent.train(transitions(len(seeds)), 10, policy_noise=0.2 / 2, noise_clip=0.5 / 2)
    return {"loaded": loaded, "trained": act(agent, states)}


def act(agent: td3.TD3, states: np.ndarray[Any, Any]) -> Any:
    return agent.select_action(states if len(states) > 1 else states[0]).tolist()


def make_agent(seeds: list[int]) -> td3.TD3:
    return td3.TD3(3, 1, 2.0, hidden_sizes=(8, 8), seed=seeds)


def transitions(agents: int) -> td3.ReplayBuffer:
    """A replay buffer with fixed transitions."""
    rng, buffer = np.random.default_rng(1), td3.ReplayBuffer(100, seed=range(agents))
    for _ in range(100):
        state, next_state = rng.standard_normal((2, agents, 3))
        action, reward = rng.standard_normal((2, agents, 1))
        buffer.add((state, next_state, action, reward, np.zeros((agents, 1))))
    return buffer


def surroundings() -> dict[str, str]:
    """What must be equal for results to be equal, bit for bit."""
    found = {"system": f"{platform.system()} {platform.machine()}", "processor": processor()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return platform.processor()
    text = cpuinfo.read_text(encoding="utf-8")
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.*)$", text, re.MULTILINE))
    return " ".join(fields.get(key, "") for key in ("model name", "cpu family", "model"))

"""Run an exported policy at a fixed rate: watchdog, safe stop, latency and jitter.

td3 export --pretrained Hopper-v5 --to numpy --out controller
python examples/control_loop.py controller --rate 125 --seconds 20

The machine is a simulator. Replace `SimulatedMachine` by yours: observe, command, stop.
"""

import argparse
import gc
import importlib.util
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

# --8<-- [start:loop]
INVALID_IN_A_ROW = 3  # observations that the policy may refuse before the loop stops
PERIODS = 5  # without a command before the watchdog stops the machine


def control(policy: Any, machine: Any, rate: float, seconds: float) -> dict[str, float]:
    """Act at a fixed rate; the machine is stopped at the end, whatever happens."""
    period, late, latency, invalid = 1 / rate, [], [], 0
    for _ in range(100):  # the first calls are slow
        policy(machine.observe())
    policy.reset()
    gc.collect()
    gc.disable()  # a collection takes milliseconds
    watchdog = Watchdog(PERIODS * period, machine.stop)
    try:
        start = time.perf_counter()
        for step in range(round(rate * seconds)):
            due = start + step * period  # absolute, so that errors do not add up
            time.sleep(max(0.0, due - time.perf_counter()))
            begin = time.perf_counter()
            action = policy(machine.observe())
            done = time.perf_counter()
            invalid = 0 if policy.ok else invalid + 1
            if invalid == INVALID_IN_A_ROW:
                raise RuntimeError(f"{invalid} invalid observations in a row")
            if watchdog.fired:
                raise RuntimeError(f"no command for {PERIODS} periods")
            machine.command(action)  # the safe action if the observation was invalid
            watchdog.feed()
            late.append(begin - due)
            latency.append(done - begin)
    finally:
        watchdog.cancel()
        machine.stop()
        gc.enable()
    return timing(np.array(late), np.array(latency), period)


class Watchdog:
    """Stops the machine if no command comes for `timeout` seconds."""

    def __init__(self, timeout: float, stop: Any) -> None:
        self.timeout, self.stop, self.fired = timeout, stop, False
        self.fed, self.over = threading.Event(), False
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self) -> None:
        while self.fed.wait(self.timeout):
            self.fed.clear()
            if self.over:
                return
        self.fired = True
        self.stop()

    def feed(self) -> None:
        self.fed.set()

    def cancel(self) -> None:
        self.over = True
        self.feed()
        self.thread.join()


def timing(late: Any, latency: Any, period: float) -> dict[str, float]:
    """Milliseconds: from observation to action (latency), and how late steps begin (jitter)."""
    found = {}
    for name, seconds in (("latency", latency), ("jitter", late)):
        for share in (50, 99, 100):
            found[f"{name} {share} %"] = 1000 * float(np.percentile(seconds, share))
    return {**found, "missed": float((late + latency > period).sum())}


# --8<-- [end:loop]


class SimulatedMachine:
    """The task of the policy. `stop` may be called from any thread, and more than once."""

    def __init__(self, task: str) -> None:
        try:
            self.env, self.stopped = gym.make(task), False
        except (gym.error.UnregisteredEnv, ModuleNotFoundError):
            raise SystemExit(f"Replace SimulatedMachine: {task!r} is not a Gymnasium id.") from None
        self.observation, _ = self.env.reset(seed=0)

    def observe(self) -> Any:
        return self.observation

    def command(self, action: Any) -> None:
        if self.stopped:
            return
        self.observation, _, terminated, truncated, _ = self.env.step(action)
        if terminated or truncated:
            self.observation, _ = self.env.reset()

    def stop(self) -> None:
        self.stopped = True  # a real machine: brake, or remove the power


def load_exported(folder: Path) -> Any:
    """The policy in the policy.py of a folder."""
    spec = importlib.util.spec_from_file_location("policy", folder / "policy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Policy()


def stop_on_signal(number: int, frame: Any) -> None:
    raise SystemExit(f"stopped by signal {number}")


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of td3 export --to numpy")
    parser.add_argument("--rate", type=float, default=125, help="steps per second, as in training")
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, stop_on_signal)  # so that the loop ends with a safe stop
    policy = load_exported(given.folder)
    facts = policy.program["facts"]
    print(f"{facts['task']}, policy {facts['sha256'][:12]}, {given.rate:g} steps/s")
    found = control(policy, SimulatedMachine(facts["task"]), given.rate, given.seconds)
    print("\n".join(f"{name}: {value:.3f}" for name, value in found.items()))
    return found


if __name__ == "__main__":
    main()

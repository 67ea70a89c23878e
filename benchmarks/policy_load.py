"""Measure how a policy loads and acts in a process of its own.

    python -m benchmarks.policy_load            # the pretrained policy for HalfCheetah-v5
    python -m benchmarks.policy_load FILE

Prints the seconds and the peak memory of `python -c "import td3; td3.load_policy(FILE)"`, whether
it imported PyTorch, and the median time of one action. Linux only.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from td3.policy.pretrained import pretrained

LOAD = """
import json, sys, time
start = time.perf_counter()
before = time.process_time()
import td3
policy = td3.load_policy(sys.argv[1])
seconds = time.perf_counter() - start
processor_seconds = time.process_time() - before
# getrusage would count the process that started this one.
(peak,) = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")]
facts = {
    "seconds": seconds,
    "processor_seconds": processor_seconds,
    "peak_mb": peak / 1024,
    "torch": "torch" in sys.modules,
    "gymnasium": "gymnasium" in sys.modules,
}
import numpy as np
from td3.layout import layout_size
observation = np.random.default_rng(0).normal(size=layout_size(policy.layout))
times = []
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    policy(observation)
    times.append(1e6 * (time.perf_counter() - start))
print(json.dumps(facts | {"action_us": sorted(times)[len(times) // 2]}))
"""


def measure(path: str, actions: int = 5000) -> dict[str, Any]:
    """Load a policy whose observations are numbers in a new process, and let it act."""
    command = [sys.executable, "-c", LOAD, path, str(actions)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(found.stdout))


def main(arguments: Sequence[str]) -> None:
    path = arguments[0] if arguments else str(pretrained("HalfCheetah-v5"))
    rounds = [measure(path) for _ in range(5)]
    for key in ("seconds", "peak_mb", "action_us"):
        print(f"{key:10} {statistics.median(facts[key] for facts in rounds):8.3f}")
    print(f"{'torch':10} {rounds[0]['torch']}\n{'gymnasium':10} {rounds[0]['gymnasium']}")


if __name__ == "__main__":
    main(sys.argv[1:])

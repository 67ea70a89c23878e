"""A process of its own for one contestant: `python -m td3.bench.peers.worker ADAPTER`.

Reads a line of JSON, does what it says, writes one back. The first line is the configuration; the
contestant then trains past its slow beginning and says that it is ready. Every other line is a
number of seconds to train. Between lines it waits for the pipe and takes no processor time.
"""

import importlib
import json
import os
import sys
import time
from typing import Any

from td3.config import from_dict
from td3.errors import first_line

WARM_UP_SECONDS = 2.0


def main() -> int:
    # What a library prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.path.append(os.getcwd())  # for my_package:MyEnv-v0; last, so that it hides no library

    def answer(**facts: Any) -> None:
        print(json.dumps(facts), file=answers, flush=True)

    try:
        config = from_dict(json.loads(sys.stdin.readline()))
        adapter = importlib.import_module(sys.argv[1])
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(max(1, config.threads))
        contestant = adapter.start(config)
        warmed = 0
        while warmed < 2 * config.loop.random_steps:  # past the random steps and the first updates
            warmed += contestant.train(WARM_UP_SECONDS)[0]
        answer(ready=True)
        for line in sys.stdin:
            steps, seconds = contestant.train(float(line))
            answer(steps=steps, seconds=seconds + wait_for_gpu())
    except Exception as error:
        answer(error=f"{type(error).__name__}: {first_line(error)}")
        return 1
    return 0


def wait_for_gpu() -> float:
    """Let the GPU finish what it was told; returns the seconds that took."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0.0
    start = time.perf_counter()
    torch.cuda.synchronize()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())

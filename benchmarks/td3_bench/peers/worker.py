"""The process of one library: `python -m benchmarks.td3_bench.peers.worker ADAPTER`.

Reads one line of JSON at a time and answers each with one line. The first line is the
configuration; the answer comes after the warm-up. Every other line is a number of seconds to
train. Between lines the process blocks on the pipe and uses no processor time.
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
    # Redirect what libraries print, so that it does not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.path.append(os.getcwd())  # finds my_package:MyEnv-v0; last, so that it hides no library

    def answer(**facts: Any) -> None:
        print(json.dumps(facts), file=answers, flush=True)

    try:
        config = from_dict(json.loads(sys.stdin.readline()))
        adapter = importlib.import_module(sys.argv[1])
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(max(1, config.threads))
        trainer = adapter.start(config)
        steps_done = 0
        while (
            steps_done < 2 * config.loop.random_steps
        ):  # past the random steps and the first updates
            steps_done += trainer.train(WARM_UP_SECONDS)[0]
        answer(ready=True)
        for line in sys.stdin:
            steps, seconds = trainer.train(float(line))
            answer(steps=steps, seconds=seconds + wait_for_gpu())
    except Exception as error:
        answer(error=f"{type(error).__name__}: {first_line(error)}")
        return 1
    return 0


def wait_for_gpu() -> float:
    """Wait until the GPU has finished; return the seconds."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0.0
    start = time.perf_counter()
    torch.cuda.synchronize()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())

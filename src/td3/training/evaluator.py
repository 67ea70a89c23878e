"""A process that plays evaluation episodes for `background_evaluation.py`.

Started as `python -m td3.training.evaluator`. It runs at the lowest priority.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
from safetensors.torch import load

from td3.environments.workers.messages import receive, wake
from td3.environments.workers.processes import describe_error, register_spec, serve_parent
from td3.training.loop_evaluation import play_policy

LOWEST_PRIORITY = 19


def make_ring(connection: Connection, seconds: float) -> Callable[[], None]:
    """A function to call often; it tells the other side every `seconds` that this one works."""
    rang = -math.inf

    def ring() -> None:
        nonlocal rang
        now = time.monotonic()
        if now - rang >= seconds:
            wake(connection)
            rang = now

    return ring


def serve(connection: Connection, facts: dict[str, Any]) -> None:
    """Play one policy after another until the channel closes."""
    os.nice(LOWEST_PRIORITY)
    torch.set_num_threads(1)
    register_spec(facts["spec"])
    while True:
        seeds, tensors = json.loads(receive(connection)), load(receive(connection))
        ring = make_ring(connection, facts["ring_every"])
        try:
            found = play_policy(facts["card"], tensors, seeds, facts["max_steps"], ring)
            fields = vars(found).items()
            answer = {name: array.tolist() for name, array in fields if array is not None}
        except Exception as error:
            answer = {"failure": describe_error(error)}
        wake(connection)  # in case there was no action
        connection.send_bytes(json.dumps(answer).encode())


if __name__ == "__main__":
    serve_parent(int(sys.argv[1]), int(sys.argv[2]), serve)

"""A process that plays evaluation episodes while training goes on, as `evaluations.py` asks it to.

Started as `python -m td3.training.evaluator`. It takes only the time that nobody else wants.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load
from torch import Tensor

from td3.environments.workers.messages import receive, wake
from td3.environments.workers.processes import describe_error, register_spec, serve_parent
from td3.policy.evaluation import Evaluation, evaluate
from td3.policy.policy import Policy

LAST_IN_LINE = 19


def play(
    card: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    seeds: list[int],
    max_steps: int,
    on_action: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Evaluate one policy on the CPU."""
    policy = Policy(card, tensors)

    def act(state: NDArray[np.float32]) -> NDArray[np.float32]:
        on_action()
        return policy.act(state)

    return evaluate(act, policy.environment, seeds, max_steps)


def ringing(connection: Connection, seconds: float) -> Callable[[], None]:
    """To be called often; rings every so many seconds, for the one who waits to hear."""
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
    os.nice(LAST_IN_LINE)
    torch.set_num_threads(1)
    register_spec(facts["spec"])
    while True:
        seeds, tensors = json.loads(receive(connection)), load(receive(connection))
        ring = ringing(connection, facts["ring_every"])
        try:
            found = play(facts["card"], tensors, seeds, facts["max_steps"], ring)
            answer = {"returns": found.returns.tolist(), "lengths": found.lengths.tolist()}
        except Exception as error:
            answer = {"failure": describe_error(error)}
        wake(connection)  # the first, if it did not come to an action
        connection.send_bytes(json.dumps(answer).encode())


if __name__ == "__main__":
    serve_parent(int(sys.argv[1]), serve)

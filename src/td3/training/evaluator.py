"""A process that plays evaluation episodes for `background_evaluation.py`.

Started as `python -m td3.training.evaluator`. It runs at the lowest priority.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from safetensors.torch import load

from td3.environments.workers.processes import attend, failure, register_spec
from td3.environments.workers.shared_memory import Channel
from td3.training.loop_evaluation import play_policy

LOWEST_PRIORITY = 19


def make_ring(channel: Channel, seconds: float) -> Callable[[], None]:
    """A function to call often; it tells the other side every `seconds` that this one works."""
    rang = -math.inf

    def ring() -> None:
        nonlocal rang
        now = time.monotonic()
        if now - rang >= seconds:
            channel.ring()
            rang = now

    return ring


def serve(channel: Channel, facts: dict[str, Any]) -> None:
    """Play one policy after another until the channel closes."""
    os.nice(LOWEST_PRIORITY)
    torch.set_num_threads(1)
    register_spec(facts["spec"])
    while True:
        seeds, tensors = json.loads(channel.receive()), load(channel.receive())
        ring = make_ring(channel, facts["ring_every"])
        try:
            found = play_policy(facts["card"], tensors, seeds, facts["max_steps"], ring)
            answer = {"returns": found.returns.tolist(), "lengths": found.lengths.tolist()}
        except Exception as error:
            answer = {"failure": failure(error)}
        channel.ring()  # in case there was no action
        channel.send(json.dumps(answer).encode())


if __name__ == "__main__":
    attend(int(sys.argv[1]), serve)

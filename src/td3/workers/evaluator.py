"""A process that plays evaluation episodes while training goes on, as `evaluations.py` asks it to.

Started as `python -m td3.workers.evaluator`. It takes only the time that nobody else wants.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import load
from torch import Tensor

from td3.evaluation import Evaluation, evaluate
from td3.policy import Policy
from td3.workers.exchange import Channel
from td3.workers.processes import attend, failure, register_spec

LAST_IN_LINE = 19


def play(
    card: Mapping[str, Any], tensors: Mapping[str, Tensor], seeds: list[int], max_steps: int
) -> Evaluation:
    """Evaluate one policy on the CPU."""
    policy = Policy(card, tensors)
    return evaluate(policy.act, policy.environment, seeds, max_steps)


def serve(channel: Channel, facts: dict[str, Any]) -> None:
    """Play one policy after another until the channel closes."""
    os.nice(LAST_IN_LINE)
    torch.set_num_threads(1)
    register_spec(facts["spec"])
    while True:
        seeds, tensors = json.loads(channel.receive()), load(channel.receive())
        try:
            found = play(facts["card"], tensors, seeds, facts["max_steps"])
            answer = {"returns": found.returns.tolist(), "lengths": found.lengths.tolist()}
        except Exception as error:
            answer = {"failure": failure(error)}
        channel.send(json.dumps(answer).encode())


if __name__ == "__main__":
    attend(int(sys.argv[1]), serve)

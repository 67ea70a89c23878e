"""Lesson 5: the next action."""

from typing import Any

import torch

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.lessons.checking import call, compare

HINTS = (
    "Which network follows slowly? Which state comes after the transition?",
    "One line: call agent.actor_target with batch.next_state.",
)


def random_batch(size: int = 12, seed: int = 0) -> Batch:
    """Transitions of random numbers, without the agent axis."""
    torch.manual_seed(seed)
    done = (torch.arange(size).reshape(size, 1) % 3 == 0).float()
    states, next_states, action = torch.randn(size, 3), torch.randn(size, 3), torch.randn(size, 2)
    return Batch(states, next_states, action, torch.randn(size, 1), done)


def random_agent() -> TD3:
    """An agent of which every network differs from its target."""
    agent, other = (TD3(3, 2, 2.0, hidden_sizes=(16, 16), seed=seed) for seed in (0, 1))
    for name, network in agent.trained.items():
        network.target.flat.copy_(other.trained[name].online.flat.detach())
    return agent


def examine(attempt: Any) -> None:
    agent, batch = random_agent(), random_batch()
    with torch.no_grad():
        # Steps 5 and 6 of td3 without noise.
        nothing = torch.zeros(1, len(batch.action), 2)
        right = agent.target_action(batch.next_state[None], nothing, UpdateSettings())[0]
        mistakes = {
            "The next action comes from the online actor. Use agent.actor_target: it moves slowly, "
            "so the critics' target stands nearly still.": agent.actor(batch.next_state),
            "The target actor sees batch.state. The question is what it does in "
            "batch.next_state.": agent.actor_target(batch.state),
            "The online actor sees batch.state. Use agent.actor_target and batch.next_state.": (
                agent.actor(batch.state)
            ),
            "This is the stored action. It answered batch.state; ask agent.actor_target what to do "
            "in batch.next_state.": batch.action,
            "The action is multiplied by max_action twice: the network does that already.": 2
            * right,
        }
    otherwise = "The result differs from agent.actor_target(batch.next_state)."
    compare(call(attempt, agent, batch), right, mistakes, otherwise)

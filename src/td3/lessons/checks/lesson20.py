"""The capstone: the whole update, compared with that of td3."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.replay import Batch
from td3.algorithm.settings import UpdateSettings
from td3.algorithm.trained import Trained
from td3.lessons.checking import Wrong, run, same
from td3.lessons.checks.lesson05 import random_agent, random_batch

UPDATES, SIZE = 4, 64
PARTS = ("critic", "critic_target", "actor", "actor_target")

HINTS = (
    "Put your exercises one after the other: 5 to 9 in `with torch.no_grad():`, then 10, 11, 12.",
    "Then `if number % 2 == 0:` and in it 13 (with actor_optimizer), 14 and 15.",
    "Do the networks see batch.state and batch.next_state in the right places?",
)


class Mean(TD3):
    def combine(self, next_values: Sequence[Tensor], noise: Any) -> Tensor:
        return torch.stack(list(next_values)).mean(dim=0)


class Larger(TD3):
    def combine(self, next_values: Sequence[Tensor], noise: Any) -> Tensor:
        return torch.maximum(*next_values)


class First(TD3):
    def combine(self, next_values: Sequence[Tensor], noise: Any) -> Tensor:
        return next_values[0]


class WithoutDone(TD3):
    def prepare(self, batch: Batch) -> Batch:
        return batch._replace(done=torch.zeros_like(batch.done))


class OnlineActor(TD3):
    def target_action(self, next_state: Tensor, noise: Any, settings: UpdateSettings) -> Tensor:
        target, self.trained["actor"].target = self.actor_target, self.actor
        action = super().target_action(next_state, noise, settings)
        self.trained["actor"].target = target
        return action


class OnlineCritics(TD3):
    def target_q(self, batch: Batch, noise: Any, settings: UpdateSettings) -> Tensor:
        target, self.trained["critic"].target = self.critic_target, self.critic
        value = super().target_q(batch, noise, settings)
        self.trained["critic"].target = target
        return value


class Downhill(TD3):
    def actor_loss(self, state: Tensor) -> Tensor:
        return -super().actor_loss(state)


class ClimbsMinimum(TD3):
    def actor_loss(self, state: Tensor) -> Tensor:
        return -torch.minimum(*self.critic(state, self.actor(state))).mean(dim=(1, 2))


class MovesCriticOnly(TD3):
    def move_target(self, network: Trained[Any], settings: UpdateSettings) -> None:
        if network is self.trained["critic"]:
            super().move_target(network, settings)


class MovesActorOnly(TD3):
    def move_target(self, network: Trained[Any], settings: UpdateSettings) -> None:
        if network is self.trained["actor"]:
            super().move_target(network, settings)


MISTAKES: dict[str, tuple[type[TD3], dict[str, Any]]] = {
    "Step 5 asks the online actor. Use agent.actor_target.": (OnlineActor, {}),
    "Step 6 is missing: the next action has no noise.": (TD3, {"policy_noise": 0.0}),
    "Step 6: the noise is not clipped to ±noise_clip.": (TD3, {"noise_clip": 1e9}),
    "Step 7 asks the online critics. Use agent.critic_target.": (OnlineCritics, {}),
    "Step 8 takes the mean. Take the smaller value.": (Mean, {}),
    "Step 8 takes the larger value. Take the smaller one.": (Larger, {}),
    "Step 8 takes the first critic's value. Take the smaller one.": (First, {}),
    "Step 9: after a terminal state nothing follows; multiply by (1 - done).": (WithoutDone, {}),
    "Step 9: the discount is missing.": (TD3, {"discount": 1.0}),
    "Step 13 goes downhill: the loss of the actor needs a minus.": (Downhill, {}),
    "Step 13 climbs the smaller value. The actor climbs Q1 alone.": (ClimbsMinimum, {}),
    "Steps 13 to 15 happen on every update. They are delayed by policy_freq = 2.": (
        TD3,
        {"policy_freq": 1},
    ),
    "Step 14 is missing: the actor target does not move.": (MovesCriticOnly, {}),
    "Step 15 is missing: the critic target does not move.": (MovesActorOnly, {}),
    "Steps 14 and 15: the targets are copies. Move them by the share tau.": (TD3, {"tau": 1.0}),
}


def examine(attempt: Any) -> None:
    agent, reference = beginner(TD3), beginner(TD3)
    start = numbers(agent)
    optimizers = [agent.trained[name].optimizer for name in ("actor", "critic")]
    for number in range(UPDATES):
        batch, noise = drawn(number)
        run(attempt, agent, *optimizers, batch, noise, number)
        step(reference, number, UpdateSettings())
        if number == 0 and all(map(same, numbers(agent), start)):
            raise Wrong("The hole is not filled yet: no network changes.")
        different = differing(agent, reference)
        if different:
            raise Wrong(explanation(agent, number, different))


def beginner(kind: type[TD3]) -> TD3:
    """An agent of which neither critic is always the smaller one."""
    agent = random_agent()
    agent.critic.flat.data[:, 0] *= 3
    agent.__class__ = kind
    return agent


def drawn(number: int) -> tuple[Batch, Tensor]:
    """The batch and the noise of an update."""
    batch = random_batch(SIZE, seed=number)
    return batch, 2 * torch.randn(SIZE, 2)  # twice, so that some of it is clipped


def step(agent: TD3, number: int, settings: UpdateSettings) -> None:
    """Update `number` of td3 itself."""
    batch, noise = drawn(number)
    agent.update(Batch(*(part[None] for part in batch)), noise[None], settings)


def numbers(agent: TD3) -> list[Tensor]:
    return [getattr(agent, name).flat.detach().clone() for name in PARTS]


def differing(agent: TD3, other: TD3) -> list[str]:
    """The networks of which both agents have different numbers."""
    pairs = zip(PARTS, numbers(agent), numbers(other), strict=True)
    return [name for name, mine, yours in pairs if not same(mine, yours)]


def explanation(agent: TD3, number: int, different: list[str]) -> str:
    """The mistake whose agent has the same numbers; otherwise where to look."""
    for sentence, (kind, own) in MISTAKES.items():
        wrong = beginner(kind)
        for earlier in range(number + 1):
            step(wrong, earlier, UpdateSettings(**own))
        if not differing(agent, wrong):
            return sentence
    steps = {
        "critic": "Look at steps 5 to 12",
        "actor": "Look at step 13",
        "actor_target": "Look at step 14",
        "critic_target": "Look at step 15",
    }
    where = next(text for name, text in steps.items() if name in different)
    return (
        f"After update {number}, these networks have other numbers than those of td3: "
        f"{', '.join(different)}. {where}."
    )

"""Which observations a transition consists of.

Observations and transitions are numbered from 0 and never renumbered. Number k is stored in slot
k % capacity. Each observation has a link to the previous one of its episode; the first one links
to itself. Example: two episodes, the first has three steps.

    observation     0 ──── 1 ──── 2 ──── 3      4 ──── 5 …
    links to        0      0      1      2      4      4
    transition         0      1      2             3

Stacks: follow the links back from the last observation of a state. In a stack of 3,

    transition 1 leads from state (0 0 1) to state (0 1 2)

The first observation repeats, as in Gymnasium's FrameStackObservation.

n-step returns: each observation also links to the transition that starts at it, -1 if none does.
With n = 2,

    transition 1 → reward 1 + discount · reward 2, next state ends at observation 3
    transition 2 → reward 2, because no transition starts at observation 3
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from td3.algorithm.replay_base import PerAgent

PREVIOUS, STARTING = 0, 1  # columns of `links`
STATE, NEXT_STATE = 0, 1  # columns of `ends`

Environment = tuple[int, int]  # agent, number of the environment


class Steps(NamedTuple):
    """The result of up to n steps; each tensor is (agents, batch)."""

    state_end: Tensor
    """Last observation of the state."""
    next_state_end: Tensor
    """Last observation of the state after these steps."""
    reward: Tensor
    """Discounted sum of rewards."""
    done: Tensor
    """1 if terminated; otherwise 1 - discount^(steps - 1), so that step 9 discounts all steps."""


class FrameIndex(PerAgent):
    """Numbers and links of the observations and transitions of every agent."""

    per_agent = ("added", "observed", "oldest", "ends", "links", "state_ends")

    def __init__(
        self,
        added: NDArray[np.int64],
        capacity: int,
        observation_capacity: int,
        margin: int,
        device: torch.device,
    ) -> None:
        """`added`: the replay buffer's count of transitions, shared with it."""
        self.agents, self.device = len(added), device
        self.capacity, self.observation_capacity = capacity, observation_capacity
        self.margin = margin
        self.added = added
        self.observed = np.zeros(self.agents, dtype=np.int64)
        """How many observations each agent has stored since the start."""
        self.oldest = np.zeros(self.agents, dtype=np.int64)
        """The first transition of each agent that can still be sampled."""
        self.current: dict[Environment, int] = {}
        """The newest observation of each environment."""
        self.discard_pending()

    def allocate(self) -> None:
        where: dict[str, Any] = {"dtype": torch.int64, "device": self.device}
        self.ends = torch.zeros(self.agents, self.capacity, 2, **where)
        """Last observation of each transition's state and next state."""
        self.links = torch.zeros(self.agents, self.observation_capacity, 2, **where)
        """For each observation: the previous one, and the transition that starts at it or -1."""
        self.state_ends = np.zeros((self.agents, self.capacity), dtype=np.int64)
        """Column STATE of `ends`, on the host."""

    def add_first_observation(self, environment: Environment) -> None:
        """Begin an episode."""
        self.current[environment] = self.add_observation(environment[0], None)

    def add_next_observation(self, environment: Environment) -> None:
        """Continue an episode by an observation."""
        self.current[environment] = self.add_observation(environment[0], self.current[environment])

    def add_transition(self, environment: Environment) -> None:
        """Continue an episode by an observation and the transition that leads to it."""
        agent, state_end = environment[0], self.current[environment]
        self.add_next_observation(environment)
        number = int(self.added[agent])
        slot = number % self.capacity
        self.new_transitions.append(agent * self.capacity + slot)
        self.new_ends.append((state_end, self.current[environment]))
        start = agent * self.observation_capacity + state_end % self.observation_capacity
        self.new_starts.append((start, number))
        self.state_ends[agent, slot] = state_end
        self.added[agent] += 1

    def add_observation(self, agent: int, previous: int | None) -> int:
        """Number a new observation."""
        number = int(self.observed[agent])
        slot = number % self.observation_capacity
        self.new_observations.append(agent * self.observation_capacity + slot)
        self.new_links.append((number if previous is None else previous, -1))
        self.observed[agent] += 1
        return number

    def discard_pending(self) -> None:
        # Entries for `write`; slots count through all agents.
        self.new_observations: list[int] = []
        self.new_links: list[tuple[int, int]] = []
        self.new_transitions: list[int] = []
        self.new_ends: list[tuple[int, int]] = []
        self.new_starts: list[tuple[int, int]] = []

    def write(self) -> tuple[Tensor, Tensor]:
        """Write everything added since the last call; on a GPU without waiting for it.

        Returns the slots of the new observations and of the new transitions.
        """
        observations, transitions, links, starts, ends = (
            to_device(np.array(new), self.device)
            for new in (
                self.new_observations,
                self.new_transitions,
                self.new_links,
                self.new_starts,
                self.new_ends,
            )
        )
        self.discard_pending()
        self.links.flatten(0, 1).index_copy_(0, observations, links)
        self.links.flatten(0, 1)[:, STARTING].index_copy_(0, starts[:, 0], starts[:, 1])
        self.ends.flatten(0, 1).index_copy_(0, transitions, ends)
        return observations, transitions

    def expire(self, agent: int) -> None:
        """Exclude transitions that are overwritten, or whose observations may be."""
        first_kept = int(self.observed[agent]) - self.observation_capacity + self.margin
        self.exclude_before(agent, int(self.added[agent]) - self.capacity, first_kept)

    def forget(self, agent: int, transition: int, observation: int) -> None:
        """Exclude what is older than these numbers, or needs an older observation."""
        first_kept = observation + self.margin
        self.exclude_before(agent, transition, first_kept)
        # The episode in progress begins again with the next state.
        self.current = {
            environment: number
            for environment, number in self.current.items()
            if environment[0] != agent or number >= first_kept
        }

    def exclude_before(self, agent: int, transition: int, observation: int) -> None:
        """Exclude the transitions before this one, and those from a state before this one."""
        oldest = max(int(self.oldest[agent]), transition)
        while (
            oldest < self.added[agent]
            and self.state_ends[agent, oldest % self.capacity] < observation
        ):
            oldest += 1
        self.oldest[agent] = oldest

    def follow(self, transitions: Tensor, rows: Tensor, discount: Tensor, n_step: int) -> Steps:
        """Up to n steps from these transitions on.

        `rows`: (agents, capacity, …), ending with reward and done. `discount`: (agents,).
        """
        agents = torch.arange(self.agents, device=self.device)[:, None]
        weight = torch.ones(transitions.shape, dtype=rows.dtype, device=self.device)
        reward, value_weight = torch.zeros_like(weight), torch.ones_like(weight)
        continues = torch.ones_like(transitions, dtype=torch.bool)
        state_end = next_state_end = self.ends[agents, transitions % self.capacity, STATE]
        for _ in range(n_step):
            slots = transitions % self.capacity
            step = rows[agents, slots]
            reward = reward + torch.where(continues, weight * step[..., -2], 0)
            value_weight = torch.where(continues, (1 - step[..., -1]) * weight, value_weight)
            ends = self.ends[agents, slots, NEXT_STATE]
            next_state_end = torch.where(continues, ends, next_state_end)
            following = self.links[agents, next_state_end % self.observation_capacity, STARTING]
            continues = continues & (following >= 0) & (step[..., -1] == 0)
            transitions = torch.where(continues, following, transitions)
            weight = weight * discount[:, None]
        return Steps(state_end, next_state_end, reward, 1 - value_weight)

    def stack_slots(self, ends: Tensor, stack: int) -> Tensor:
        """Slots of the stacks that end with these observations, (agents, batch, stack)."""
        agents = torch.arange(self.agents, device=self.device)[:, None]
        numbers = [ends]
        for _ in range(stack - 1):
            slots = numbers[-1] % self.observation_capacity
            numbers.append(self.links[agents, slots, PREVIOUS])
        slots = torch.stack(numbers[::-1], dim=-1) % self.observation_capacity
        return slots + agents[..., None] * self.observation_capacity

    def clear(self) -> None:
        for counts in (self.added, self.observed, self.oldest):
            counts[:] = 0
        self.current = {}

    def restart(self, agent: int) -> None:
        """Forget the observations and transitions of one agent."""
        self.observed[agent] = self.oldest[agent] = 0
        self.current = {own: number for own, number in self.current.items() if own[0] != agent}

    def tensors(self) -> dict[str, Tensor]:
        """State outside the tables; the names are part of the checkpoint format."""
        current = [(*environment, number) for environment, number in self.current.items()]
        return {
            "at": torch.tensor(current, dtype=torch.int64).view(-1, 3),
            "oldest": torch.from_numpy(self.oldest.copy()),
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Undo `tensors`."""
        self.current = {(agent, env): number for agent, env, number in tensors["at"].tolist()}
        self.oldest[:] = tensors["oldest"].numpy()
        if (self.oldest < 0).any() or (self.oldest > self.added).any():
            raise ValueError("its oldest transition was never stored")

    def restore_starts(self) -> None:
        """Derive column STARTING of `links` and `state_ends` from `ends`.

        A checkpoint may hold an observation from before its transition was known.
        """
        for agent, (first, stop) in enumerate(zip(self.oldest, self.added, strict=True)):
            numbers = torch.arange(int(first), int(stop), device=self.device)
            starts = self.ends[agent, numbers % self.capacity, STATE]
            self.state_ends[agent] = self.ends[agent, :, STATE].cpu().numpy()
            self.links[agent, :, STARTING] = -1
            self.links[agent, starts % self.observation_capacity, STARTING] = numbers


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """A tensor on `device`; on a GPU without waiting for the copy."""
    tensor = torch.from_numpy(array)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)

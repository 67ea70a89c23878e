"""Test vectors: recorded observations and the actions that belong to them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from td3.environments.environment import Environment
from td3.environments.factories import Factory
from td3.errors import RunStopped, UserError, first_line
from td3.exports.program import Array, Input, Program
from td3.exports.runtime import Policy as Runtime
from td3.policy.policy import Policy
from td3.policy.trust import unnamed_module

VECTORS = 1_000
MOST_NUMBERS = 4_000_000  # 16 MB; policies of images get fewer vectors
NOISE = 0.3  # of exploration, so that states beyond the policy's own are visited


class Vectors(NamedTuple):
    observations: NDArray[np.float32]
    """(count, stack, inputs), oldest first."""
    actions: NDArray[np.float64]
    """(count, outputs), in the units of the environment."""
    problem: str = ""
    """Why the observations are random numbers; empty if they come from the task."""

    @property
    def recorded(self) -> bool:
        """Whether the observations come from the task; otherwise they are random numbers."""
        return not self.problem

    def first(self, count: int) -> "Vectors":
        """The first of them."""
        return Vectors(self.observations[:count], self.actions[:count], self.problem)

    def to_bytes(self) -> bytes:
        """Observations as float32, then actions as float64, little-endian."""
        return self.observations.astype("<f4").tobytes() + self.actions.astype("<f8").tobytes()


def make_vectors(
    policy: Policy,
    program: Program,
    runtime: Runtime,
    count: int = VECTORS,
    seed: int = 0,
    environment: "str | Factory" = "",
) -> Vectors:
    """Play the policy's task and record observations; without the task, draw them.

    `environment`: the task to play instead of the one in the policy file. It must work.
    """
    count = max(8, min(count, MOST_NUMBERS // (program.stack * program.input_size)))
    generator = np.random.default_rng(seed)
    states, problem = None, ""
    try:
        states = play(policy, count, generator, environment)
    except (UserError, RunStopped) as error:  # for example its simulator is not installed
        if environment:
            raise
        problem = why_random(policy.environment.id, error)
    if states is None:
        observations = draw(program, count, generator)
    else:
        frames = states.reshape(count, program.stack, -1)
        observations = np.stack(
            [raw_observations(program.inputs, frames[:, k]) for k in range(program.stack)], axis=1
        )
    return Vectors(observations, actions_of(runtime, observations), problem)


def why_random(task: str, error: Exception) -> str:
    """Why the task was not played, as one sentence without its final point."""
    if module := unnamed_module(task):
        return (
            f"td3 did not import the module {module} of the task; name it with --environment {task}"
        )
    return first_line(error)


def play(
    policy: Policy, count: int, generator: np.random.Generator, task: "str | Factory" = ""
) -> NDArray[np.float32]:
    """Flat states of the task, with exploration noise in every third step."""
    environment = Environment(policy.task_to_play(task))
    try:
        policy.check_fits(environment.task)
        states = [environment.reset(seed=int(generator.integers(2**31)))]
        while len(states) < count:
            action = policy.act(states[-1])
            if len(states) % 3 == 0:
                noise = generator.normal(0, NOISE, action.shape)
                action = np.clip(action + noise, -1, 1).astype(np.float32)
            state, _, terminated, truncated = environment.step(action)
            states.append(environment.reset() if terminated or truncated else state)
    finally:
        environment.close()
    return np.array(states)


def draw(program: Program, count: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """Random observations."""
    shape = (count, program.stack)
    parts: list[Array] = []
    for part in program.inputs:
        if part.kind == "choices":
            choices = [
                start + generator.integers(number, size=shape)
                for number, start in zip(part.counts, part.starts, strict=True)
            ]
            parts.append(np.stack(choices, axis=-1))
        elif part.kind == "image":
            share = generator.integers(256, size=(*shape, part.size)) / 255
            parts.append(part.low + share * (part.high - part.low))
        else:
            parts.append(generator.normal(0, 2, (*shape, part.size)))
    return np.concatenate(parts, axis=-1).astype(np.float32)


def raw_observations(inputs: list[Input], states: NDArray[np.float32]) -> NDArray[np.float32]:
    """Undo the flattening: one-hot vectors become choices, bytes become pixels."""
    parts: list[Array] = []
    start = 0
    for part in inputs:
        own: Array = states[:, start : start + part.outputs]
        if part.kind == "choices":
            edges = np.cumsum(part.counts)[:-1]
            chosen = [one_hot.argmax(axis=1) for one_hot in np.split(own, edges, axis=1)]
            own = np.stack(chosen, axis=1) + np.array(part.starts)
        elif part.kind == "image":
            own = part.low + own / 255 * (part.high - part.low)
        parts.append(own)
        start += part.outputs
    return np.concatenate(parts, axis=1).astype(np.float32)


def actions_of(runtime: Runtime, observations: NDArray[np.float32]) -> NDArray[np.float64]:
    """The action for each stack of raw observations, in double precision."""
    actions = []
    for frames in observations:
        runtime.reset()
        for frame in frames:
            action = runtime.act(runtime.read_vector(frame))
        actions.append(action)
    runtime.reset()
    return np.array(actions)

"""Judge an environment: would td3 take it, and can it be learnt from?"""

import math
import re
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from td3.config import EnvironmentConfig
from td3.doctor.rehearsal import (
    SEED,
    Seen,
    Tick,
    Trial,
    declared_bounds,
    different_dimension,
    rehearse,
)
from td3.environments.observations import flattened_images, observation_layout
from td3.environments.task import Task, action_bounds
from td3.errors import UserError, first_line
from td3.layout import has_images, in_words

SCALES_APART = 100  # times; a network hardly sees the smaller one
TYPICAL_REWARD = (1e-3, 100.0)
LARGEST_FACTOR = 1e5  # a reward this small is more likely rare than badly scaled
SHORTEST_LIMIT = 10  # steps; tasks that really end after fewer are common


@dataclass(frozen=True)
class Check:
    """One thing looked at: what was found and, unless all is well, what to do."""

    name: str
    status: Literal["ok", "warning", "error"]
    message: str
    advice: str = ""


def read_spaces(
    env: gym.Env[Any, Any], config: EnvironmentConfig
) -> tuple[list[Check], Task | None]:
    """Both spaces, or why td3 would refuse them."""
    env_id = config.id
    checks, parts = [], []
    for name, read, space in (
        ("actions", action_bounds, env.action_space),
        ("observations", observation_layout, env.observation_space),
    ):
        try:
            parts.append(read(space, env_id))
        except UserError as error:
            checks.append(refusal(name, error))
    if checks:
        return checks, None
    try:
        task = Task.of(env_id, env.observation_space, env.action_space, config.frame_stack)
    except UserError as error:
        return [refusal("observations", error)], None
    return [check_actions(task), check_observations(task, env.observation_space)], task


def refusal(name: str, error: UserError) -> Check:
    """td3's refusals say what is wrong and, after a semicolon or before a command, what to do."""
    what, *rest = re.split(r"; |: (?=pip install)", str(error), maxsplit=1)
    advice = "".join(rest)
    if advice and not advice.startswith("pip"):
        advice = advice[0].upper() + advice[1:]
    return Check(name, "error", what.rstrip("."), advice)


def check_actions(task: Task) -> Check:
    low, high = task.bounds.low, task.bounds.high
    numbers = count(task.action_dim, "number")
    if np.ptp(low) == 0 and np.ptp(high) == 0:
        message = f"{numbers} in [{low[0]:g}, {high[0]:g}]"
    else:
        message = (
            f"{numbers}, bounds from [{low.min():g}, {high.max():g}] to "
            f"[{low.max():g}, {high.min():g}] by dimension"
        )
    fixed = np.flatnonzero(low == high)
    if fixed.size:
        return Check(
            "actions",
            "warning",
            f"{message}; low equals high in {dimensions(fixed)}",
            "Leave out of the action space what cannot be controlled.",
        )
    return Check("actions", "ok", message)


def check_observations(task: Task, space: spaces.Space[Any]) -> Check:
    if flattened := flattened_images(space):
        several = any(len(shape) > 3 for shape in flattened)
        return Check(
            "observations",
            "warning",
            f"{in_words(task.layout)}; the array {flattened[0]} is taken for single numbers",
            "If these are images, give one at a time and use --environment.frame-stack."
            if several
            else "If it is an image, declare it as uint8, or as floats from 0 to 1.",
        )
    if has_images(task.layout):
        return Check("observations", "ok", f"{in_words(task.layout)}, seen through convolutions")
    plain = isinstance(space, spaces.Box) and len(space.shape) == 1
    kind = "" if plain else f", flattened from {type(space).__name__}"
    shape = f" {space.shape}" if not plain and isinstance(space, spaces.Box) else ""
    return Check("observations", "ok", f"{count(task.state_dim, 'number')}{kind}{shape}")


def examine(
    config: EnvironmentConfig, env: gym.Env[Any, Any], task: Task, steps: int, tick: Tick
) -> list[Check]:
    """Try it and judge: one check for each thing that training depends on."""
    seen = Seen(task, declared_bounds(task, env.observation_space))
    used: list[Check] = []
    with warnings.catch_warnings(record=True) as remarks, ExitStack() as stack:
        warnings.simplefilter("default")
        try:
            first, second = (stack.enter_context(Trial(config, task)) for _ in range(2))
            rehearse(seen, (first, second), steps, tick)
            used = check_used(config, first, seen)
        # Whatever a foreign simulator raises is what the user wants to hear about.
        except (Exception, SystemExit) as error:
            seen.failure = f"{type(error).__name__}: {first_line(error)}"
        extremes = [] if seen.failure else [check_extremes(config, task)]
    judged = [check_numbers(seen), *extremes, check_time_limit(env, seen)]
    if seen.steps:
        judged += [check_repeatable(seen), *used, check_speed(seen), check_scales(seen)]
        judged += [check_constant(seen), check_rewards(seen), check_episodes(seen)]
    return judged + check_remarks([str(remark.message) for remark in remarks])


def check_numbers(seen: Seen) -> Check:
    """Finite, and where the space says."""
    if seen.failure:
        return Check(
            "stepping",
            "error",
            f"raised {seen.failure} (after {count(seen.steps, 'step')})",
            "Mend the environment: training would stop there.",
        )
    if seen.not_finite:
        return Check(
            "stepping",
            "error",
            f"gave {seen.not_finite}",
            "Mend the environment (a division by zero, a simulation that blew up?) or end the "
            "episode before: training stops at such a number.",
        )
    if seen.outside:
        return Check(
            "stepping",
            "warning",
            f"{seen.outside:,} of {seen.observations:,} observations lay outside their declared "
            f"space, e.g. in dimension {seen.outside_dimension}",
            "td3 trains all the same; correct low and high of the observation space.",
        )
    return Check(
        "stepping", "ok", f"{seen.steps:,} random steps: all numbers finite and inside their space"
    )


def check_extremes(config: EnvironmentConfig, task: Task) -> Check:
    """Trained policies often act at the bounds; random actions hardly ever do."""
    try:
        with Trial(config, task) as trial:
            trial.reset(SEED)
            for repeat in range(10):
                bound = -1 if repeat % 2 else 1
                outcome = trial.step(np.full(task.action_dim, bound, dtype=np.float32))
                if not (np.isfinite(outcome.state).all() and math.isfinite(outcome.reward)):
                    raise ValueError("the result is not finite")
                if outcome.over:
                    trial.reset()
    except (Exception, SystemExit) as error:
        return Check(
            "action bounds",
            "error",
            f"acting at the bounds fails: {first_line(error)}",
            "Declare an action space that the environment accepts up to its bounds.",
        )
    return Check("action bounds", "ok", "lowest and highest actions are accepted")


def check_time_limit(env: gym.Env[Any, Any], seen: Seen) -> Check:
    limit = env.spec.max_episode_steps if env.spec else None
    if limit:
        return Check("time limit", "ok", f"{limit:,} steps")
    if not seen.episodes:
        return Check(
            "time limit",
            "warning",
            f"none, and no episode ended in {count(seen.steps, 'step')}",
            "Register it with max_episode_steps=…, or set --evaluation.max-steps.",
        )
    return Check("time limit", "ok", "none of Gymnasium's; the environment ends episodes itself")


def check_repeatable(seen: Seen) -> Check:
    if not seen.parted:
        message = "same seed, same actions, same bytes: a resumed run continues exactly"
        return Check("repeatable", "ok", message)
    return Check(
        "repeatable",
        "warning",
        f"two objects with the same seed and actions part {seen.parted}",
        "Runs cannot be repeated or resumed exactly; draw all randomness from self.np_random, "
        "which reset(seed=…) sets.",
    )


def check_used(config: EnvironmentConfig, used: Trial, seen: Seen) -> list[Check]:
    """Whether reset(seed) forgets the past. td3 does not need it to: it remakes the object."""
    if seen.parted:
        return []
    stream = np.random.default_rng(SEED + 1)
    with Trial(config, seen.task) as fresh:
        place = different_dimension(used.reset(SEED + 1), fresh.reset(SEED + 1))
        for _ in range(100):
            action = stream.uniform(-1, 1, seen.task.action_dim).astype(np.float32)
            outcome = used.step(action)
            place = place or outcome.difference(fresh.step(action))
            if place or outcome.over:
                break
    if place:
        message = "reset(seed=…) does not undo the past; td3 resumes with fresh objects instead"
        return [Check("reset", "ok", message)]
    return [Check("reset", "ok", "reset(seed=…) makes a used object like a fresh one")]


def check_speed(seen: Seen) -> Check:
    speed = seen.steps / max(seen.seconds, 1e-9)
    return Check(
        "speed",
        "ok",
        f"{speed:,.0f} steps/s with random actions; a million steps of the simulator alone: "
        f"{duration(1e6 / speed)}",
    )


def check_scales(seen: Seen) -> Check:
    moving = np.flatnonzero(~seen.constant & ~seen.pixels & (seen.scales > 0))
    if not moving.size:
        return Check("scales", "ok", "no number that moves")
    scales = seen.scales[moving]
    largest, smallest = moving[scales.argmax()], moving[scales.argmin()]
    message = f"typical size {short(scales.min())} (dimension {smallest})"
    if moving.size > 1:
        message += f" to {short(scales.max())} (dimension {largest})"
    if scales.max() > SCALES_APART * scales.min():
        return Check(
            "scales",
            "warning",
            f"{message}: more than {SCALES_APART} times apart",
            "Bring them to like sizes in the environment."
            if seen.pixels.any()
            else "Try --environment.normalize-observations.",
        )
    return Check("scales", "ok", message)


def check_constant(seen: Seen) -> Check:
    if seen.pixels.any() and seen.constant[seen.pixels].all():
        return Check(
            "constants", "warning", "the image never changed", "Check that it shows what happens."
        )
    constant = np.flatnonzero(seen.constant & ~seen.pixels)
    if not constant.size:
        return Check("constants", "ok", "none")
    size = seen.task.state_dim
    message = f"{constant.size} of {size} never changed: {dimensions(constant)}"
    if constant.size > size / 2:
        return Check("constants", "warning", message, "Check that the observation shows the state.")
    return Check("constants", "ok", message)


def check_rewards(seen: Seen) -> Check:
    sizes = np.abs(seen.rewards)
    if not sizes.any():
        return Check(
            "reward",
            "warning",
            f"always 0 in {count(seen.steps, 'random step')}",
            "Where random actions earn nothing, TD3 has nothing to learn from; shape the reward.",
        )
    typical = float(np.median(sizes[sizes > 0]))
    share = (sizes > 0).mean()
    lowest, highest = short(min(seen.rewards)), short(max(seen.rewards))
    message = f"{lowest} to {highest}, typical size {short(typical)}"
    if share < 0.5:
        message += f" where it is not 0 ({share:.1%} of steps)"
    if TYPICAL_REWARD[0] <= typical <= TYPICAL_REWARD[1]:
        return Check("reward", "ok", message)
    factor = 10.0 ** -round(math.log10(typical))
    if factor > LARGEST_FACTOR:
        advice = "Random actions hardly earn anything; shape the reward if learning does not start."
        return Check("reward", "warning", message, advice)
    return Check("reward", "warning", message, f"Try --environment.reward-scale {factor:g}.")


def check_episodes(seen: Seen) -> Check:
    if not seen.episodes:
        return Check("episodes", "ok", f"none ended in {count(seen.steps, 'step')}")
    terminated = sum(episode.terminated for episode in seen.episodes)
    lengths = [episode.length for episode in seen.episodes]
    returns = np.mean([episode.episode_return for episode in seen.episodes])
    message = (
        f"{len(lengths)} ended: {terminated / len(lengths):.0%} terminated, "
        f"{1 - terminated / len(lengths):.0%} truncated; mean length {np.mean(lengths):,.0f}, "
        f"mean random return {returns:,.1f}"
    )
    always = len(lengths) > 2 and len(set(lengths)) == 1 and terminated == len(lengths)
    if always and lengths[0] >= SHORTEST_LIMIT:
        return Check(
            "episodes",
            "warning",
            f"{message}; each terminated after exactly {lengths[0]} steps",
            "If that is a time limit, report it as truncated: after terminated, TD3 learns that "
            "nothing follows.",
        )
    return Check("episodes", "ok", message)


def check_remarks(remarks: list[str]) -> list[Check]:
    """What Python's warnings said, each once."""
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", remark).removeprefix("WARN: ") for remark in remarks]
    return [
        Check(
            "remark", "warning", remark.strip().splitlines()[0], "Said by the environment itself."
        )
        for remark in dict.fromkeys(plain)
    ]


def count(amount: int, what: str) -> str:
    return f"{amount:,} {what}{'s' if amount != 1 else ''}"


def short(number: float) -> str:
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e9 else f"{number:.3g}"


def dimensions(indices: NDArray[np.integer]) -> str:
    shown = ", ".join(str(index) for index in indices[:8])
    return f"dimension{'s' if indices.size > 1 else ''} {shown}{', …' if indices.size > 8 else ''}"


def duration(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"

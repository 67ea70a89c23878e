"""What the user learns at the start of a run: the plan, a hint, and the expected duration."""

import statistics
import time

from td3.config import Config, load_recipe
from td3.environments.task import Task
from td3.text import count
from td3.training.loop import Training

SMALL_STATE = 8  # numbers; tasks that observe fewer are usually learned in far fewer steps
MANY_STEPS = 1_000_000
WARM_UP = 100  # updates; the first ones are slower
BLOCK_SECONDS = 0.25
BLOCKS, EPISODE_BLOCKS = 8, 80  # with updates after each episode, the speed varies for longer


def describe_plan(config: Config) -> str:
    """Steps, evaluations and agents of a run, in two lines."""
    agents, each = (f"{config.agents} agents, ", " each") if config.agents > 1 else ("", "")
    how = "without updates" if config.start_from else "random"
    return (
        f"Plan: {agents}{count(config.loop.steps, 'step')}{each} "
        f"(the first {config.loop.random_steps:,} {how}),\n"
        f"      {count(count_evaluations(config), 'evaluation')} of "
        f"{count(config.evaluation.episodes, 'episode')}"
    )


def count_evaluations(config: Config) -> int:
    """How often each agent is evaluated: at the start, every so many steps, and at the end."""
    whole, rest = divmod(config.loop.steps, config.evaluation.every)
    return 1 + whole + bool(rest)


def suggest_recipe(config: Config, task: Task) -> str:
    """A hint for a small task with a recipe for large ones; empty if there is nothing to say."""
    small = task.state_dim < SMALL_STATE
    if config.recipe != "paper" or config.loop.steps < MANY_STEPS or not small:
        return ""
    steps = load_recipe("quick").loop.steps
    return f"{task.id} looks like a small task: --recipe quick ({steps:,} steps) may be enough"


class DurationEstimate:
    """Measures the first updates of a run, then shows once how long the run will take."""

    def __init__(self, training: Training) -> None:
        self.training, self.next = training, training.on_step
        self.began = time.monotonic()
        self.evaluation_seconds: float | None = None
        self.mark: tuple[float, int] | None = None
        self.seconds_per_step: list[float] = []
        loop = training.config.loop
        self.by_episode = loop.update == "episode"
        self.measures_from = WARM_UP + (0 if self.by_episode else loop.random_steps)
        training.on_step = self

    def __call__(self, step: int) -> None:
        self.next(step)
        now = time.monotonic()
        if self.evaluation_seconds is None:  # the run began with an evaluation
            background = self.training.evaluations.background
            self.evaluation_seconds = 0.0 if background else now - self.began
        if step <= self.measures_from:
            return
        if self.mark is None:
            self.mark = now, step
        elif now - self.mark[0] >= BLOCK_SECONDS:
            self.seconds_per_step.append((now - self.mark[0]) / (step - self.mark[1]))
            self.mark = now, step
            if len(self.seconds_per_step) == (EPISODE_BLOCKS if self.by_episode else BLOCKS):
                self.finish(step)

    def finish(self, step: int) -> None:
        """Show the estimate and measure no longer."""
        # The median leaves out a block with an evaluation or a checkpoint.
        average = statistics.fmean if self.by_episode else statistics.median
        per_step = average(self.seconds_per_step)
        config, done = self.training.config, step // self.training.config.evaluation.every
        evaluations = count_evaluations(config) - 1 - done
        left = (config.loop.steps - step) * per_step + evaluations * (self.evaluation_seconds or 0)
        total = time.monotonic() - self.began + left
        message = f"Expected duration: {describe_duration(total)} on this machine"
        self.training.recorder.show({"kind": "plan", "message": message})
        self.training.on_step = self.next


def describe_duration(seconds: float) -> str:
    """The order of magnitude: less than a minute, about 40 minutes, about 3 hours."""
    if seconds < 60:
        return "less than a minute"
    for size, unit, limit in ((60, "minute", 90), (3600, "hour", 36), (86_400, "day", 10**9)):
        if seconds / size < limit:
            return f"about {count(round(seconds / size), unit)}"
    return "years"

"""Settings of the task and of how its environments run."""

from dataclasses import dataclass
from typing import Literal

from td3.config.fields import setting

Value = bool | int | float | str

# Settings that Gymnasium's wrappers implement. They wrap one environment, not a vector.
WRAPPERS = ("pixels", "resize", "grey", "frame_stack", "action_repeat")


@dataclass(frozen=True)
class EnvironmentConfig:
    """The task and how its environments run."""

    id: str = setting(
        "",
        "Gymnasium id, e.g. HalfCheetah-v5, or class or function, e.g. my_module:make_env; same as "
        "ENVIRONMENT.",
    )
    kwargs: dict[str, Value] = setting(
        {},
        "Keyword arguments of the environment.",
        "Example: --environment.kwargs ctrl_cost_weight 0.05.",
        common=True,
    )
    max_episode_steps: int = setting(
        0,
        "Time limit of an episode; 0: as registered.",
        "A class or function has no limit unless it ends episodes itself. Counts steps of the "
        "simulator.",
        unit="steps",
        min=0,
    )
    info: tuple[str, ...] = setting(
        ("is_success", "success"),
        "Numbers to log from the environment's info.",
        "is_success and success: the last value of the episode; others: the mean over its steps. "
        "Example: --environment.info is_success x_velocity.",
    )
    count: int = setting(1, "Environments per agent.", min=1, code=1, common=True)
    vectorization: Literal[
        "auto", "own", "workers", "envpool", "sync", "async", "vector_entry_point"
    ] = setting(
        "auto",
        "Where environments run.",
        "own: in this process; workers: in worker processes, with the same results; auto: the "
        "faster of the two. All three resume exactly. envpool (a different build of the "
        "simulators) and the modes of gymnasium.make_vec start new episodes on resume.",
    )
    workers: int = setting(
        0, "Worker processes; 0: choose from the environments and the free cores.", min=0, max=1024
    )
    patience: float = setting(
        300.0,
        "Timeout for one step or reset of an environment; 0: no timeout.",
        "On timeout the run stops and names the environment. A worker process may take at least 60 "
        "seconds to start.",
        unit="seconds",
        min=0,
    )
    normalize_observations: bool = setting(
        False, "Scale observations by their running mean and standard deviation.", code=False
    )
    pixels: bool = setting(
        False,
        "Learn from images.",
        "Uses the task's own images, or rendered ones if it observes none.",
        common=True,
    )
    resize: int = setting(
        0,
        "Resize images to this height and width; 0: keep their size.",
        "DrQ-v2 uses 84.",
        unit="pixels",
        min=0,
        max=4096,
    )
    grey: bool = setting(False, "Convert images to greyscale.")
    frame_stack: int = setting(
        1,
        "Number of latest observations that make up a state.",
        "One image shows no velocity. Each observation is stored once. DrQ-v2 uses 3.",
        min=1,
        max=100,
    )
    action_repeat: int = setting(
        1, "Simulator steps per action; td3 counts actions as steps.", "DrQ-v2 uses 2.", min=1
    )
    reward_scale: float = setting(
        1.0, "Factor on rewards in training; evaluation reports true rewards.", above=0, code=1
    )

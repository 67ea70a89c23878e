"""Callbacks: code of the user that the training loop calls."""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from td3.config import Config
from td3.errors import RunStopped, UserError, first_line
from td3.training.user_classes import describe_exception, load_class

if TYPE_CHECKING:  # a module with callbacks need not load torch
    from td3.algorithm.agent import TD3
    from td3.algorithm.replay_base import Replay
    from td3.training.state import TrainingState


@dataclass(frozen=True)
class Stop:
    """What a callback returns to end the run; `td3.STOP`, or `td3.STOP("the reason")`."""

    reason: str = ""

    def __call__(self, reason: str) -> "Stop":
        return Stop(reason)


STOP = Stop()
"""Returned by a callback, it ends the run: the run saves and exits; it can be resumed."""


class LiveRun:
    """What a callback sees of a run: live objects, and how far it is."""

    def __init__(self, state: "TrainingState") -> None:
        self._state, self._began = state, time.monotonic()

    @property
    def step(self) -> int:
        """Environment steps of each agent so far; `config.loop.steps` is the last one."""
        return self._state.step

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self._state.recorder.run.folder

    @property
    def config(self) -> Config:
        """The settings of the run."""
        return self._state.config

    @property
    def seeds(self) -> list[int]:
        """The seed of each agent."""
        return self._state.config.agent_seeds

    @property
    def agent(self) -> "TD3":
        """The networks of all agents, while they learn; `agent.member(k)` is agent k."""
        return self._state.agent

    @property
    def replay(self) -> "Replay":
        """The replay buffers of all agents."""
        return self._state.replay

    @property
    def elapsed(self) -> float:
        """Seconds since training started in this process."""
        return time.monotonic() - self._began


@dataclass(frozen=True)
class Episode:
    """A training episode that just ended."""

    agent: int
    seed: int
    """The seed of the agent."""
    episode_return: float
    """Sum of the rewards, before `environment.reward_scale`."""
    length: int
    info: Mapping[str, Any] = field(default_factory=dict)
    """The environment's `info` of the last step."""


class Callback:
    """Code that runs while td3 trains: subclass it and override the methods that you need.

    Pass objects to `td3.train(callbacks=[...])`, or name the class with
    `--callback my_module:MyCallback`. Every method gets the run: `run.step`, `run.agent`,
    `run.replay`, `run.folder`, `run.config`, `run.seeds` and `run.elapsed`. Return `td3.STOP` from
    any of them to end the run; it is saved and can be resumed. An exception ends it too, after a
    checkpoint. Agents, replay buffer and settings are the live ones: read them, do not change them.

    Example:
        class Solved(td3.Callback):
            def on_evaluation(self, run, evaluations):
                if all(record["mean_return"] > -200 for record in evaluations):
                    return td3.STOP("solved")
    """

    def on_start(self, run: LiveRun) -> Stop | None:
        """Training starts or resumes; `run.step` is 0 or the step of the checkpoint."""

    def on_step(self, run: LiveRun) -> Stop | None:
        """A step of every environment is done, with its updates."""

    def on_episode(self, run: LiveRun, episode: Episode) -> Stop | None:
        """A training episode ended."""

    def on_evaluation(self, run: LiveRun, evaluations: list[dict[str, Any]]) -> Stop | None:
        """An evaluation is done: one record for each agent, as in metrics.jsonl.

        On a GPU evaluations run in the background. They arrive when the next one starts, so the
        `step` of the records is less than `run.step`.
        """

    def on_checkpoint(self, run: LiveRun) -> Stop | None:
        """A checkpoint was written."""

    def on_end(self, run: LiveRun) -> Stop | None:
        """Training finished or was stopped, and is saved. Not called after an error."""


HOOKS = ("on_start", "on_step", "on_episode", "on_evaluation", "on_checkpoint", "on_end")
Hook = Callable[..., Any]


class Callbacks:
    """The callbacks of a run. The loop asks `over` after each step, when the run may be saved."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self.hooks: dict[str, list[tuple[Callback, Hook]]] = {
            name: [(own, hook) for own in callbacks if (hook := overridden(own, name))]
            for name in HOOKS
        }
        self.over = False
        """Whether a callback asked to stop, or failed."""
        self.reason = ""
        """Why a callback stopped the run."""
        self.stopped_by: Callback | None = None
        self.failure: RunStopped | None = None

    def start(self, state: "TrainingState") -> None:
        """Begin with the run; calls `on_start`."""
        self.run, self.seeds = LiveRun(state), state.config.agent_seeds
        self.call("on_start")

    def call(self, name: str, *given: Any) -> None:
        """Call one method of every callback that has it."""
        for callback, hook in self.hooks[name]:
            if self.failure:
                return
            try:
                answer = hook(self.run, *given)
            except (Exception, SystemExit) as error:
                self.fail(describe_failure(callback, name, error), error)
                return
            if isinstance(answer, Stop):
                self.stop(callback, answer)
            elif answer is not None:
                where = f"{type(callback).__name__}.{name}"
                self.fail(f"The callback {where} returned {answer!r}, not td3.STOP or None")

    def call_episodes(self, ended: Sequence[Any]) -> None:
        """Call `on_episode` for each `Ended` episode."""
        for one in ended:
            facts = one.agent, self.seeds[one.agent], one.episode_return, one.length
            self.call("on_episode", Episode(*facts, one.info))

    def stop(self, callback: Callback, answer: Stop) -> None:
        """End the run after this step. The first reason counts."""
        if self.stopped_by is None:
            self.over, self.stopped_by = True, callback
            self.reason = answer.reason or f"the callback {type(callback).__name__} stopped it"

    def fail(self, message: str, cause: BaseException | None = None) -> None:
        """End the run after this step, with an error."""
        self.over, self.failure = True, RunStopped(message)
        self.failure.__cause__ = cause


def overridden(callback: Callback, name: str) -> Hook | None:
    """The method of a callback, or None if it is the empty one of `Callback`."""
    method: Hook = getattr(callback, name)
    return None if getattr(method, "__func__", None) is getattr(Callback, name) else method


def describe_failure(callback: Callback, name: str, error: BaseException) -> str:
    """One sentence about an exception in a callback, with its place in the code."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    where = f"The callback {type(callback).__name__}.{name}"
    return describe_exception(where, error, frame, line)


def load_callback(path: str) -> Callback:
    """An object of the callback class at module:Class."""
    kind = load_class(path, Callback, "callback")
    try:
        made: Callback = kind()
    except Exception as error:
        raise UserError(
            f"The callback {path} cannot be made without arguments: {first_line(error)}."
        ) from error
    return made


def check_callback(callback: object) -> Callback:
    """Return an object that Python code passed as a callback; raise UserError if it is none."""
    if isinstance(callback, Callback):
        return callback
    if isinstance(callback, type) and issubclass(callback, Callback):
        raise UserError(f"callbacks must be objects: write {callback.__name__}().")
    raise UserError(f"callbacks must be objects of td3.Callback, got {callback!r}.")

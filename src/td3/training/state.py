"""The parts of a training and how far it is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from td3.algorithm.agent import TD3
from td3.algorithm.replay_base import Replay
from td3.config import Config
from td3.environments.base import Environments
from td3.seeding import Streams
from td3.signals import StopRequest
from td3.training.callbacks import Callbacks
from td3.training.collector import Collector
from td3.training.learner import Learner
from td3.training.loop_evaluation import LoopEvaluation
from td3.training.metrics import Interval
from td3.training.population import Population
from td3.training.recorder import Recorder
from td3.training.saving import SaveTimes
from td3.training.schedules import Schedules


@dataclass
class TrainingState:
    """Everything that the loop works on and a checkpoint saves (`launch/assembly.py` makes it)."""

    config: Config
    population: Population
    streams: list[Streams]
    """The random streams of each agent."""
    environments: Environments
    collector: Collector
    replay: Replay
    agent: TD3
    interval: Interval
    """Sums since the last log record."""
    learner: Learner
    evaluations: LoopEvaluation
    recorder: Recorder
    replay_place: str
    """Where the replay buffers are kept: a device, or "disk" for images."""
    on_step: Callable[[int], None] = lambda step: None
    """Called with the step number after every step."""
    stop: StopRequest = field(default_factory=StopRequest)
    """Whether the user wants the run to stop."""
    check_lock: Callable[[], None] = lambda: None
    """Raises RunLost if the run folder was deleted, moved or replaced."""
    callbacks: Callbacks = field(default_factory=Callbacks)
    step: int = 0
    warned_of_length: bool = False
    """Whether the user knows that episodes do not end."""
    warned_of_added: bool = False
    """Whether the user knows that updates add tensors."""
    saved_at: int = 0
    """Step of the last checkpoint."""
    segments: list[dict[str, Any]] = field(default_factory=list)
    """Replay files that the last checkpoint uses."""
    best: list[float] = field(init=False)
    """Highest mean return of an evaluation of each agent."""
    schedules: Schedules = field(init=False)
    save_times: SaveTimes = field(init=False)
    first_names: set[str] = field(init=False)
    """Names of the tensors of a new agent."""
    taken: int = field(init=False)
    """Steps of each agent in the last step of all environments."""

    def __post_init__(self) -> None:
        self.taken = self.collector.count
        self.first_names = set(self.agent.tensors())
        self.save_times = SaveTimes(self.config.checkpoint)
        self.schedules = Schedules(self.config, self.agent, self.collector)
        self.best = [-np.inf] * self.agent.agents

    @property
    def finished(self) -> bool:
        return self.step >= self.config.loop.steps

    def own_facts(self) -> dict[str, Any]:
        """What a checkpoint saves besides, for `restore_own`."""
        return {}

    def restore_own(self, facts: dict[str, Any]) -> None:
        """Continue from the facts of a checkpoint; called before environments are restored."""

    def close(self) -> None:
        for part in (
            self.learner,
            self.evaluations,
            self.environments,
            self.replay,
            self.recorder,
        ):
            part.close()

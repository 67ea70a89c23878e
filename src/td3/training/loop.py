"""The loop: act, update while the environments step, store, evaluate, checkpoint."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.images.frame_replay import FrameReplay
from td3.algorithm.replay import ReplayBuffer
from td3.config import Config, changes, to_dict
from td3.environments.backend import EXACT, arranged
from td3.environments.environment import Task
from td3.environments.workers.pool import Workers
from td3.errors import Diverged, UserError
from td3.execution import compute_on, make_learner
from td3.files import JsonLines, check_file, make_folder, remove
from td3.policy.policy import policy_card, save_policy
from td3.run.checkpoint import forget_after, newest_checkpoint, save_checkpoint
from td3.run.folder import Run
from td3.run.memory import IMAGES_FILE, check_memory, describe_replay, stores_observations
from td3.run.versions import versions
from td3.seeding import Stream, Streams, restore_stream, stream_state
from td3.signals import StopRequest
from td3.training.background_evaluation import Result, make_evaluations
from td3.training.collector import Collector, Ended
from td3.training.exploration import GaussianExploration
from td3.training.metrics import Interval, Record, Sink, diverged, evaluation_record
from td3.training.population import Population, erase, not_finite

# Settings that fix the shape or the meaning of what a checkpoint holds.
SHAPES = (
    "agent.hidden_sizes",
    "agent.channels",
    "agent.features",
    "agent.n_step",
    "loop.replay_size",
    "seed",
    "seeds",
)


class Training:
    """Everything that a run is made of, and the loop over it."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        sinks: Sequence[Sink] = (),
        on_step: Callable[[int], None] = lambda step: None,
    ) -> None:
        self.config, self.sinks, self.on_step = config, sinks, on_step
        self.device = compute_on(config.device, config.threads)
        self.population = Population(config, self.device)
        self.seeds = config.agent_seeds
        self.streams = [Streams.from_seed(seed) for seed in self.seeds]
        count = config.environment.count
        self.environments = arranged(
            config, [stream.env for stream in self.streams for _ in range(count)]
        )
        task = self.environments.task
        self.collector = Collector(
            self.environments,
            len(self.seeds),
            GaussianExploration(
                [stream.explore for stream in self.streams],
                count,
                task.action_dim,
                self.population.each("loop.exploration_noise"),
            ),
            self.population.each("environment.reward_scale"),
            self.population.frozen,
            self.freeze,
        )
        place = check_memory(config, task)
        self.rings = describe_replay(config, task, place)
        self.replay = make_replay(config, self.population, task, place, folder)
        self.agent = TD3(
            task.state_dim,
            task.action_dim,
            hidden_sizes=config.agent.hidden_sizes,
            actor_learning_rate=self.population.number("agent.actor_learning_rate"),
            critic_learning_rate=self.population.number("agent.critic_learning_rate"),
            seed=self.seeds,
            normalize_observations=config.environment.normalize_observations,
            layout=task.layout,
            channels=config.agent.channels,
            features=config.agent.features,
            device=self.device,
        )
        workers = len(self.environments.links) if isinstance(self.environments, Workers) else 0
        self.evaluations = make_evaluations(self.agent, config, task, workers)
        self.interval = Interval(len(self.seeds), self.device)
        self.learner = make_learner(
            self.agent,
            self.replay,
            self.interval,
            self.population,
            config.execution,
            config.precision,
        )
        self.best = [-np.inf] * len(self.seeds)
        self.step = self.saved_at = 0
        self.segments: list[dict[str, Any]] = []
        self.run = Run(folder)
        self.metrics = JsonLines(self.run.metrics)
        self.clock = (time.monotonic(), 0)

    def loop(self, stop: StopRequest) -> None:
        """Train to the last step, or until asked to stop."""
        if self.step == 0:
            self.evaluate()
        while not (self.finished or stop.requested):
            self.advance()
            self.on_step(self.step)
            if self.due(self.config.loop.log_every):
                self.log()
            if self.due(self.config.evaluation.every) or self.finished:
                self.evaluate()
            if self.due(self.config.checkpoint.every):
                self.save()
        if self.saved_at != self.step:
            self.save()
        self.take_in()  # after a stop; resume will do it again, where it belongs in metrics.jsonl

    def advance(self) -> list[Ended]:
        """One step of every environment, and the updates that belong to it.

        The actions are chosen first. While the environments take them, the agents learn from what
        was stored before, and then the transitions of the step before are stored: nothing that can
        be done meanwhile waits for the environments, nor they for it. So the update of step t
        samples from transitions up to step t - 2, where the authors' includes step t.
        """
        self.step += self.collector.count
        loop, states = self.config.loop, self.environments.states
        exploring = self.step <= loop.random_steps
        if exploring:
            actions = self.collector.random_actions()
        else:
            chosen = self.learner.act(states)
            actions = self.collector.add_noise(chosen)
        self.collector.send(actions, self.step)
        if loop.update == "step" and not exploring and self.replay.filled:
            self.learner.learn(self.collector.count * loop.updates_per_step)
        if not exploring:
            self.interval.add_actions(self.collector.zero_where_frozen(chosen))
        if self.agent.normalizer:
            self.agent.normalizer.observe(self.collector.owners, states)
        self.store()
        ended = self.collector.receive(self.learner.prefetch_actions)
        for episode in ended:
            self.interval.add_episode(*episode)
            if loop.update == "episode":
                self.store()
                self.learner.learn_member(episode.agent, episode.length * loop.updates_per_step)
        return ended

    def store(self) -> None:
        """Put the transitions that were received last into the rings."""
        transitions = self.collector.transitions()
        if transitions:
            self.learner.store(transitions)

    @property
    def finished(self) -> bool:
        return self.step >= self.config.loop.steps

    def due(self, every: int) -> bool:
        """Whether the step just taken reached or passed a multiple of `every`."""
        return self.step // every > (self.step - self.collector.count) // every

    def log(self) -> None:
        """Write what happened since the last time; freeze an agent that diverged."""
        then, step = self.clock
        self.clock = (time.monotonic(), self.step)
        speed = (self.step - step) / max(self.clock[0] - then, 1e-9)
        self.run.event("progress", step=self.step, steps_per_second=round(speed, 1))
        for record in self.interval.records(self.step, self.seeds, self.agent.updates.tolist()):
            if self.population.frozen[record["agent"]]:
                continue
            self.write(record)
            if name := diverged(record):
                self.freeze(record["agent"], f"its {name} is {record[name]}")

    def freeze(self, agent: int, why: str) -> None:
        """Let an agent that diverged rest while the others go on; the last one ends the run."""
        name = self.population.name(agent)
        if self.population.last:
            raise Diverged(
                f"{name.capitalize()} diverged: {why} by step {self.step}; "
                "try a smaller learning rate or reward_scale"
            )
        self.population.frozen[agent] = True
        erase(self.agent, self.interval, agent)
        self.replay.erase(agent)
        facts = {"step": self.step, **self.population.facts(agent), "message": why}
        self.run.event("frozen", **facts)
        for sink in self.sinks:
            sink.write({"kind": "frozen", "name": name, **facts})

    def freeze_diverged(self) -> None:
        """Freeze every agent that holds a number which is not finite."""
        for agent, name in not_finite(self.agent.tensors() | self.interval.tensors()).items():
            self.freeze(agent, f"{name} is no longer finite")

    def evaluate(self) -> None:
        """Have the evaluation episodes played, on a GPU while training goes on."""
        self.take_in()
        self.freeze_diverged()
        self.evaluations.begin(self.step, np.flatnonzero(~self.population.frozen).tolist())
        if self.finished or not self.evaluations.background:
            self.take_in()

    def take_in(self) -> None:
        """Write what the evaluation under way has found; keep each agent's best policy."""
        for result in self.evaluations.results():
            agent, returns, lengths = result.agent, result.found.returns, result.found.lengths
            if np.isnan(returns).any():
                if not self.population.frozen[agent]:
                    self.freeze(agent, "its policy gives actions that are not finite")
                continue
            best = float(returns.mean()) > self.best[agent]
            record = evaluation_record(
                result.step, agent, self.seeds[agent], returns, lengths, best
            )
            if best:
                self.best[agent] = record["mean_return"]
                self.keep_policy(result, record)
            self.write(record)

    def keep_policy(self, result: Result, record: Record) -> None:
        agent = result.agent
        facts = {key: record[key] for key in ("step", "seed", "mean_return", "std_return")}
        facts |= self.population.facts(agent)
        facts["episodes"] = self.config.evaluation.episodes
        facts["max_steps"] = self.config.evaluation.max_steps
        facts["versions"] = versions()
        own = self.population.members[agent].environment
        card = policy_card(self.agent, self.environments.task, own, facts)
        file = self.run.policy_file(agent)
        make_folder(file.parent)
        save_policy(result.policy, card, file)

    def write(self, record: Record) -> None:
        record |= self.population.facts(record["agent"])
        self.metrics.write(record)
        for sink in self.sinks:
            sink.write(record)

    def tensors(self) -> dict[str, Tensor]:
        """All state that is numbers."""
        parts = {
            "agent": self.agent.tensors(),
            "interval": self.interval.tensors(),
            "collector": {k: torch.from_numpy(v) for k, v in self.collector.snapshot().items()},
            "evaluation": self.evaluations.tensors(),
            "replay": self.replay.tensors(),
        }
        return {f"{part}/{key}": t for part, group in parts.items() for key, t in group.items()}

    def moving_streams(self) -> dict[str, Stream]:
        """Every stream that moves during training, by name."""
        used = self.learner.streams() | {
            "explore": [streams.explore for streams in self.streams],
            "env": [streams.env for streams in self.streams],
        }
        return {f"{name}.{k}": s for name, group in used.items() for k, s in enumerate(group)}

    def save(self) -> None:
        """Write a checkpoint; never one with a number that is not finite."""
        self.freeze_diverged()
        facts = {
            "step": self.step,
            "best": [float(b) if np.isfinite(b) else None for b in self.best],
            "frozen": np.flatnonzero(self.population.frozen).tolist(),
            "evaluating": self.evaluations.step,
            "metrics_bytes": self.metrics.length(),
            "config": to_dict(self.config),
            "streams": {name: stream_state(s) for name, s in self.moving_streams().items()},
        }
        self.segments = save_checkpoint(
            self.run.folder, self.step, self.tensors(), facts, self.replay, self.segments
        )
        self.saved_at = self.step

    def restore(self) -> list[str]:
        """Go back to the newest valid checkpoint; returns remarks, such as why not exactly."""
        checkpoint = newest_checkpoint(
            self.run.folder, self.replay, lambda facts: self.changed(facts["config"])
        )
        if checkpoint is None:
            first = self.config.checkpoint.every + self.collector.count - 1  # at the latest
            if self.run.finished or last_step(self.run.metrics) > first:
                raise UserError(f"{self.run.folder} has no checkpoints; it cannot be continued.")
            self.metrics.truncate(0)
            return []
        steps = self.config.loop.steps
        same = steps == checkpoint.facts["config"]["loop"]["steps"]
        if checkpoint.step >= steps and (self.run.finished or not same):
            raise UserError(
                f"{self.run.folder} is finished: it has all its {checkpoint.step:,} steps; "
                "give --steps a larger number to go on."
            )
        remarks = [*checkpoint.rejected, *self.changed(checkpoint.facts["config"])]
        groups: dict[str, dict[str, Tensor]] = {
            "agent": {},
            "interval": {},
            "collector": {},
            "evaluation": {},
            "replay": {},
        }
        for name, tensor in checkpoint.tensors.items():
            part, _, key = name.partition("/")
            groups[part][key] = tensor
        self.agent.restore(groups["agent"])
        self.interval.restore(groups["interval"])
        for name, stream in self.moving_streams().items():
            restore_stream(stream, checkpoint.facts["streams"][name])
        strayed = self.collector.restore({k: t.numpy() for k, t in groups["collector"].items()})
        self.replay.restore(groups["replay"])
        self.best = [-np.inf if b is None else b for b in checkpoint.facts["best"]]
        for agent in checkpoint.facts.get("frozen", []):  # its segments hold what it once saw
            self.population.frozen[agent] = True
            self.replay.erase(agent)
        self.evaluations.restore(checkpoint.facts.get("evaluating"), groups["evaluation"])
        self.metrics.truncate(checkpoint.facts["metrics_bytes"])
        self.segments = checkpoint.segments
        self.step = self.saved_at = checkpoint.step
        self.clock = (time.monotonic(), self.step)
        forget_after(self.run.folder, self.step)
        return remarks + ([f"not exact: {strayed}"] if strayed else [])

    def changed(self, before: dict[str, Any]) -> list[str]:
        """Settings that are not what they were; refuses those that the saved state depends on."""
        found = changes(before, to_dict(self.config))
        found.pop("environment.workers", None)  # who steps exact environments changes nothing
        for varied in self.config.grid:  # the members have values of their own
            found.pop(varied, None)
        if all(who in EXACT for who in found.get("environment.vectorization", ())):
            found.pop("environment.vectorization", None)
        for key, (old, new) in found.items():
            several = key == "loop.update" and self.agent.agents > 1  # trained unequally often
            if several or key in SHAPES or key.startswith(("environment.", "grid.")):
                raise UserError(
                    f"{key} was {old} when {self.run.folder} was saved and is now {new}; "
                    "put it back in config.toml, or start a new run."
                )
        ignored = ("loop.steps", "track")
        return [
            f"not exact: {key} was {old}, is {new}"
            for key, (old, new) in found.items()
            if key not in ignored
        ]

    def close(self) -> None:
        self.learner.close()
        self.evaluations.close()
        self.environments.close()
        self.replay.close()
        self.metrics.close()
        self.run.events.close()


def make_replay(
    config: Config, population: Population, task: Task, place: str, folder: Path
) -> ReplayBuffer:
    """A ring of transitions, or of observations where that is smaller or needed."""
    seeds, size = config.agent_seeds, config.loop.replay_size
    file = folder / IMAGES_FILE
    check_file(file)
    remove(file)  # of a run that was killed
    if not stores_observations(config, task):
        return ReplayBuffer(size, seed=seeds, device=place)
    replay = FrameReplay(
        size,
        task.layout,
        environments=config.environment.count,
        n_step=config.agent.n_step,
        discount=population.number("agent.discount"),
        random_shift=config.agent.random_shift,
        file=file if place == "disk" else None,
        seed=seeds,
        device="cpu" if place == "disk" else place,
    )
    if place == "disk":  # refused now, not at the first step
        replay.allocate(task.state_dim, task.action_dim)
    return replay


def last_step(metrics: Path) -> int:
    """The step of the last whole record, 0 where there is none."""
    for line in reversed(metrics.read_bytes().splitlines()):
        with suppress(ValueError, KeyError, TypeError):
            return int(json.loads(line)["step"])
    return 0

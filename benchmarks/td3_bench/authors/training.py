"""The loop of the authors' main.py, in Gymnasium's interface, with our records."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from benchmarks.td3_bench.authors import load_module
from benchmarks.td3_bench.authors.captured import CapturedTD3, TableBuffer
from td3.config import Config, load_recipe, to_dict
from td3.config.toml import to_toml
from td3.files import replace_file
from td3.run.versions import describe_machine, versions

RECIPE = "authors' code"
COMMIT = "34770cc"
PROGRESS_EVERY = 10_000
POLICY_NOISE, NOISE_CLIP = 0.2, 0.5


class AuthorsRun:
    """One seed of the authors' code; writes a folder that td3's reports can read."""

    def __init__(
        self,
        source: Path,
        config: Config,
        folder: Path,
        plain: bool,
        env: "gym.Env[Any, Any] | None" = None,
    ) -> None:
        self.config, self.folder, self.seed = config, folder, config.seed
        self.env = env or gym.make(config.environment.id)
        self.steps = self.length = 0  # of the run, and of the episode
        torch.manual_seed(self.seed)
        np.random.seed(self.seed)  # noqa: NPY002
        self.state, _ = self.env.reset(seed=self.seed)
        self.env.action_space.seed(self.seed)
        space: Any = self.env.action_space
        self.high, self.actions = float(space.high[0]), int(space.shape[0])
        self.limit = self.env.spec.max_episode_steps if self.env.spec else None
        self.make_agent(source, plain)

    def make_agent(self, source: Path, plain: bool) -> None:
        states, settings = len(self.state), self.config.agent
        agent = load_module(source, "TD3").TD3(
            states,
            self.actions,
            self.high,
            policy_noise=POLICY_NOISE * self.high,
            noise_clip=NOISE_CLIP * self.high,
        )
        self.buffer: Any
        if plain:
            self.agent: Any = agent
            self.buffer = load_module(source, "utils").ReplayBuffer(states, self.actions)
        else:
            device, size = torch.device("cuda"), self.config.loop.replay_size
            self.buffer = TableBuffer(states, self.actions, size, settings.batch_size, device)
            self.agent = CapturedTD3(agent, self.buffer, states)

    def train(self) -> None:
        self.write_config()
        self.event("start", 0)
        self.evaluate(0)
        while self.steps < self.config.loop.steps:
            self.advance()
            if self.steps % self.config.evaluation.every == 0:
                self.evaluate(self.steps)
            if self.steps % PROGRESS_EVERY == 0:
                self.event("progress", self.steps)
        self.event("finish", self.steps)

    def advance(self) -> None:
        """One step of main.py's loop: act, store, train."""
        self.length += 1
        learning = self.steps >= self.config.loop.random_steps
        action = self.explore(self.state) if learning else self.random_action()
        next_state, reward, terminated, truncated, _ = self.env.step(action)
        done = terminated or truncated
        stored = float(done) if self.limit is None or self.length < self.limit else 0.0
        self.buffer.add(self.state, action, next_state, reward, stored)
        self.state = next_state
        if learning:
            self.agent.train(self.buffer, self.config.agent.batch_size)
        if done:
            (self.state, _), self.length = self.env.reset(), 0
        self.steps += 1

    def random_action(self) -> Any:
        return self.env.action_space.sample()

    def explore(self, state: Any) -> Any:
        scale = self.high * self.config.loop.exploration_noise
        noise = np.random.normal(0, scale, size=self.actions)  # noqa: NPY002
        return (self.agent.select_action(state) + noise).clip(-self.high, self.high)

    def evaluate(self, step: int) -> None:
        env, returns = gym.make(self.config.environment.id), []
        seed: int | None = self.seed + 100
        for _ in range(self.config.evaluation.episodes):
            (state, _), done, total = env.reset(seed=seed), False, 0.0
            seed = None  # main.py seeds the environment once per evaluation
            while not done:
                state, reward, terminated, truncated, _ = env.step(self.agent.select_action(state))
                total, done = total + float(reward), terminated or truncated
            returns.append(total)
        env.close()
        self.write(
            "metrics.jsonl",
            {"kind": "evaluation", "agent": 0, "seed": self.seed, "step": step}
            | {"mean_return": float(np.mean(returns)), "std_return": float(np.std(returns))},
        )

    def event(self, name: str, step: int) -> None:
        self.write("events.jsonl", {"time": round(time.time(), 3), "event": name, "step": step})

    def write(self, name: str, record: dict[str, Any]) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def write_config(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("metrics.jsonl", "events.jsonl"):
            (self.folder / name).unlink(missing_ok=True)
        facts = {"versions": versions() | {"authors": COMMIT}, "machine": describe_machine()}
        tables = to_dict(self.config) | facts
        replace_file(self.folder / "config.toml", to_toml(tables).encode())


def authors_config(task: str, seed: int, steps: int, every: int, episodes: int) -> Config:
    """The settings of their main.py, which are those of the recipe `paper`."""
    config = load_recipe("paper")
    return dataclasses.replace(
        config,
        recipe=RECIPE,
        seed=seed,
        device="cuda" if torch.cuda.is_available() else "cpu",
        precision="float32",
        environment=dataclasses.replace(config.environment, id=task),
        loop=dataclasses.replace(
            config.loop, steps=steps, random_steps=min(config.loop.random_steps, steps // 2)
        ),
        evaluation=dataclasses.replace(config.evaluation, every=every, episodes=episodes),
    )

"""A trained policy on its own: what is needed to act, and nothing more.

`agent-0.safetensors` holds the actor, the observation statistics if there are any, and in its
header a card that says how to use them. Reading it runs no code, and playing it imports no module
that only the card names (`trust.py`).
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from td3.algorithm.agent import TD3
from td3.algorithm.images.encoder import Encoder
from td3.algorithm.networks import Actor
from td3.algorithm.normalizer import CLIP, Normalizer
from td3.algorithm.stacked import StackedParameters
from td3.config import WRAPPERS, Config, EnvironmentConfig, EvaluationConfig
from td3.config.checks import check
from td3.environments.environment import Environment
from td3.environments.task import ActionBounds, Task
from td3.errors import UserError, first_line, nearest
from td3.files import CURVES, digest, replace_file
from td3.layout import Observation, describe_layout, flatten, has_images, layout_size
from td3.policy.evaluation import Evaluation, episode_seeds, evaluate
from td3.policy.pretrained import names, run_or_pretrained
from td3.policy.trust import task_to_play

FORMAT, READABLE = 2, (1, 2)  # the first had no checksum of its card
POLICY_FILE = re.compile(r"agent-\d+\.safetensors")


class Policy:
    """From an observation, as the environment gives it, to an action, as it takes it."""

    def __init__(
        self, card: Mapping[str, Any], tensors: Mapping[str, Tensor], name: str = "policy"
    ) -> None:
        self.card, self.tensors, self.name = dict(card), dict(tensors), name
        self.layout = card["observation"]
        bounds = card["action"]
        self.bounds = ActionBounds(
            np.array(bounds["low"]),
            np.array(bounds["high"]),
            tuple(bounds["shape"]),
            bounds["dtype"],
        )
        state_dim, action_dim = layout_size(self.layout), self.bounds.low.size
        self.encoder, seen = None, state_dim
        if has_images(self.layout):
            self.encoder = Encoder(self.layout, card["channels"], card["features"], streams=())
            seen = self.encoder.outputs
        self.actor = Actor(seen, action_dim, 1.0, card["hidden_sizes"], streams=())
        self.statistics = None
        groups: dict[str, dict[str, Tensor]] = {"actor": {}, "encoder": {}, "normalizer": {}}
        for name, tensor in tensors.items():
            group, _, key = name.partition(".")
            groups[group][key] = tensor
        networks: dict[str, StackedParameters | None] = {
            "actor": self.actor,
            "encoder": self.encoder,
        }
        for group, network in networks.items():
            if network:
                for name, view in network.named_layers(network.flat.detach()).items():
                    tensor = groups[group][name]
                    if tensor.shape != view.shape or not tensor.is_floating_point():
                        kind = f"{tensor.dtype} of shape {tuple(tensor.shape)}"
                        raise ValueError(f"{group}.{name} is {kind}, not {tuple(view.shape)}")
                    view.copy_(tensor)
        if groups["normalizer"]:
            normalizer = Normalizer(1, state_dim, torch.float32, torch.device("cpu"))
            normalizer.load_state_dict(groups["normalizer"])
            normalizer.refresh()
            self.statistics = normalizer.shift[0, 0].numpy(), normalizer.scale[0, 0].numpy()
        self.layers = [
            (weight[0].numpy(), bias[0, 0].numpy())
            for weight, bias in self.actor.layers(self.actor.flat.detach())
        ]

    def __repr__(self) -> str:
        when = "" if self.step is None else f", of step {self.step:,}"
        return f"Policy({self.environment.id}{when})"

    def __call__(self, observation: Any) -> NDArray[Any]:
        """The action for one observation."""
        try:
            state = flatten(self.layout, observation)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not an observation of {self.environment.id}: {error}") from error
        return self.bounds.scale(self.act(state))

    @np.errstate(over="ignore", invalid="ignore")  # whoever asks sees that it is not finite
    def act(self, state: Observation) -> NDArray[np.float32]:
        """For one flat state, in [-1, 1].

        The actor is computed by NumPy: for a single state PyTorch takes longer to find out what to
        do than to do it, and what the simulator had in the processor's cache is gone afterwards.
        """
        x = state
        if self.statistics:
            shift, scale = self.statistics
            x = np.minimum(np.maximum((x - shift) * scale, -CLIP), CLIP)
        if self.encoder:
            x = self.encoded(x)
        for weight, bias in self.layers[:-1]:
            x = np.maximum(x @ weight + bias, 0)
        weight, bias = self.layers[-1]
        action: NDArray[np.float32] = np.tanh(x @ weight + bias)
        return action

    def evaluate(
        self,
        episodes: int = 10,
        seed: int = 1_000_000,
        tick: Callable[[], None] = lambda: None,
        environment: str = "",
    ) -> Evaluation:
        """Play noise-free episodes of its task, as `td3 evaluate` does.

        Args:
            episodes: Number of episodes.
            seed: Seed of the episodes.
            tick: Called after each episode.
            environment: Id of the task to play instead of the one in the policy file. A task
                `module:Env-v0` needs it, because it imports `module`.

        Raises:
            UserError: The task does not fit the policy, or it would import a module that only the
                policy file names.
        """
        config = self.task_to_play(environment)
        tried = Environment(config)
        tried.close()
        self.check_fits(tried.task)
        seeds = episode_seeds(seed, episodes)
        return evaluate(self.act, config, seeds, self.max_steps, tick)

    def task_to_play(
        self, environment: str = "", command: str = 'policy.evaluate(environment="{task}")'
    ) -> EnvironmentConfig:
        """Return the task in the card, or `environment` with the card's other settings.

        Raises UserError, with `command` as advice, if only the card names a module to import.
        """
        return task_to_play(self.name, self.environment, environment, command)

    @torch.no_grad()
    def encoded(self, state: Observation) -> NDArray[np.float32]:
        """What the actor sees of a state with images."""
        assert self.encoder is not None
        features: NDArray[np.float32] = (
            self.encoder(torch.from_numpy(state).view(1, 1, -1)).view(-1).numpy()
        )
        return features

    def check_fits(self, task: Task) -> None:
        """Refuse a task that changed since the policy was trained."""
        if task.layout != self.layout:
            now, then = describe_layout(task.layout), describe_layout(self.layout)
            if now == then:
                then += " with other bounds, keys or order"
            raise UserError(f"{task.id} now observes {now}, but {self.name} was trained on {then}.")
        own, found = self.card["action"], action_card(task.bounds)
        if found != own:
            parted = [key for key in own if found[key] != own[key]]
            raise UserError(
                f"The actions of {task.id} are no longer those that {self.name} was trained on: "
                f"{', '.join(f'{key} {found[key]}, not {own[key]}' for key in parted)}."
            )

    @property
    def step(self) -> int | None:
        """When it was kept, if it says so."""
        said = self.card.get("step")
        return said if isinstance(said, int) else None

    @property
    def mean_return(self) -> float:
        """What it earned when it was kept, if it says so."""
        said = self.card.get("mean_return")
        return float(said) if isinstance(said, int | float) else -np.inf

    @property
    def max_steps(self) -> int:
        """Where an evaluation ends an episode."""
        return int(self.card.get("max_steps") or EvaluationConfig.max_steps)

    @property
    def environment(self) -> EnvironmentConfig:
        """The task that it was trained for."""
        return EnvironmentConfig(**self.card["environment"])


def policy_card(
    agent: TD3, task: Task, config: EnvironmentConfig, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """What a policy file needs besides its weights."""
    return {
        "environment": {
            "id": config.id,
            "kwargs": config.kwargs,
            **{name: getattr(config, name) for name in WRAPPERS},
        },
        "observation": task.layout,
        "action": action_card(task.bounds),
        "hidden_sizes": list(agent.actor.widths[1:-1]),
        **encoder_facts(agent.encoder),
        "normalize_observations": agent.normalizer is not None,
        "reward_scale": config.reward_scale,
        **facts,
    }


def action_card(bounds: ActionBounds) -> dict[str, Any]:
    return {
        "low": bounds.low.tolist(),
        "high": bounds.high.tolist(),
        "shape": list(bounds.shape),
        "dtype": bounds.dtype,
    }


def encoder_facts(encoder: Encoder | None) -> dict[str, Any]:
    return {"channels": encoder.channels, "features": encoder.features} if encoder else {}


def policy_tensors(agent: TD3) -> list[dict[str, Tensor]]:
    """The numbers of each agent's policy as they are now: copies, on the CPU."""
    networks: dict[str, StackedParameters | None]
    networks = {"actor": agent.actor, "encoder": agent.encoder}
    flats = {
        name: network.flat.detach().to("cpu", copy=True)
        for name, network in networks.items()
        if network
    }
    statistics = agent.normalizer.state_dict() if agent.normalizer else {}
    seen = {f"normalizer.{name}": tensor.clone() for name, tensor in statistics.items()}
    policies = []
    for rows in (slice(k, k + 1) for k in range(agent.agents)):
        policy = {
            f"{group}.{name}": view
            for group, flat in flats.items()
            for name, view in networks[group].named_layers(flat[rows]).items()  # type: ignore[union-attr]
        }
        policies.append(policy | {name: tensor[rows] for name, tensor in seen.items()})
    return policies


def save_policy(tensors: Mapping[str, Tensor], card: Mapping[str, Any], path: Path) -> None:
    """Write one agent's policy with its card, in one file."""
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    card = {**card, "format": FORMAT, "sha256": checksum(tensors)}
    text = json.dumps(card | {"card_sha256": card_checksum(card)})
    replace_file(path, save(tensors, metadata={"card": text}))


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Of all numbers, in the order of their names."""
    return digest(b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors)))


def card_checksum(card: Mapping[str, Any]) -> str:
    """Of everything in a card but the checksum itself."""
    said = {key: value for key, value in card.items() if key != "card_sha256"}
    return digest(json.dumps(said).encode())


def load_policy(
    run: str | Path | None = None, agent: int | None = None, *, pretrained: str = ""
) -> Policy:
    """The best policy of a run: of one agent, or of the agent that did best.

    `run` is a run folder, its `policy` folder, or one policy's `.safetensors` file. `pretrained`
    names a task whose policy comes along instead, e.g. `load_policy(pretrained="Hopper-v5")`.
    """
    policies = policies_of(run_or_pretrained(None if run is None else Path(run), pretrained), agent)
    return max(policies, key=lambda policy: policy.mean_return)


def policies_of(path: Path, agent: int | None = None) -> list[Policy]:
    """The best policies of all agents of a run, or of one agent."""
    if path.suffix == ".safetensors":
        if agent is not None:
            raise UserError(f"{path} is one policy: there is no agent to choose.")
        return [read_policy(path)]
    try:
        folder = path / "policy" if (path / "policy").is_dir() else path
        if folder.is_file():
            raise UserError(f"{path} is neither a run folder nor a .safetensors file.")
        if not folder.is_dir():
            if str(path) in names():
                raise UserError(
                    f"There is no run {path}; the policy that comes along is --pretrained {path}, "
                    f"or load_policy(pretrained={str(path)!r})."
                )
            raise UserError(f"{path} does not exist.{nearest(str(path), siblings(path))}")
        found = [name for name in os.listdir(folder) if POLICY_FILE.fullmatch(name)]
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    files = sorted((folder / name for name in found), key=lambda f: (len(f.stem), f.stem))
    if agent is not None:
        files = [file for file in files if file.stem == f"agent-{agent}"]
    if not files:
        whose = f"agent {agent}" if agent is not None else "any agent"
        raise UserError(f"No policy of {whose} in {path}: {why_none(path, found)}.")
    return [read_policy(file) for file in files]


def why_none(path: Path, found: list[str]) -> str:
    if found:
        return f"there is {', '.join(Path(name).stem for name in sorted(found))}"
    if (path / CURVES).is_file():
        return "stored results, without policies"
    if (path / "config.toml").is_file():
        return "no evaluation of this run has kept one"
    return "it is no run (no config.toml)"


def siblings(path: Path) -> list[str]:
    return [str(other) for other in path.parent.glob("*") if other.is_dir()]


def read_policy(path: Path) -> Policy:
    """One policy from its file."""
    try:
        with safe_open(path, framework="pt") as file:
            card = json.loads((file.metadata() or {}).get("card", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(f"Cannot read the policy {path}: {first_line(error)}.") from error
    if not isinstance(card, dict) or card.get("format") not in READABLE:
        known = " or ".join(map(str, READABLE))
        raise UserError(f"{path} is not a policy of format {known}.")
    try:
        unchecked = card["format"] == 1 and "card_sha256" not in card
        intact = unchecked or card.get("card_sha256") == card_checksum(card)
        if not intact or card.get("sha256") != checksum(tensors):
            raise UserError(f"The policy {path} is damaged: it fails its checksum.")
        policy = Policy(card, tensors, path.stem)
        check(Config(environment=policy.environment))
        return policy
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"The policy {path} does not fit its card: {first_line(error)}.") from error

"""A Hugging Face model repository: the card, the policy, its recipe, a film and all exports."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from td3.config import dotted, to_dict, to_toml
from td3.environments.factories import Factory
from td3.errors import UserError
from td3.files import read_regular
from td3.policy.file import policy_bytes
from td3.policy.policy import Policy
from td3.run.folder import read_config
from td3.text import escape, markdown_table, number

EPISODES = 20
LONGEST_FILM = 2**28  # bytes
CARD = """---
{header}
---

# TD3 policy for {task}

A policy trained with [td3](https://pypi.org/project/td3), an implementation of TD3 (Fujimoto, van
Hoof and Meger, 2018). It maps an observation of {task} to an action.

## Return

{returns}

{film}## Use

```python
import td3  # pip install td3
from huggingface_hub import hf_hub_download

policy = td3.load_policy(hf_hub_download("USER/REPOSITORY", "policy.safetensors"))
action = policy(observation)  # as the environment gives it
```

Without td3: each export contains everything between the raw observation and the actuator. Each was
compared with `policy_vectors.bin`, recorded observations with their actions.

{files}

## Reproduce

{reproduce}

## Settings

{settings}

## Limits

The policy was trained for this task, with these observations, at this rate. Elsewhere its actions
are not known to be good. NaN and infinity give the safe action: zero within the bounds.

## Licence

{licence}
"""
FILES = {
    "policy.safetensors": "for td3: tensors and a JSON card",
    "policy.py": "NumPy, one file",
    "policy.c": "C99, with `policy.h`, `policy_selftest.c` and `CMakeLists.txt`",
    "policy.mjs": "JavaScript, an ES module",
    "policy.onnx": "ONNX; `policy_graph.py` runs it",
    "policy.pt2": "a `torch.export` program; `policy_graph.py` runs it",
    "policy_vectors.bin": "recorded observations and actions, for the self-tests",
    "recipe.toml": "all settings of the training",
    "replay.mp4": "a film",
}


class Repository(NamedTuple):
    """What a model repository contains besides the policy."""

    run: Path | None = None
    """The run of the policy: its settings and its film."""
    film: Path | None = None
    """An mp4 file, instead of the run's."""
    licence: str = "mit"


class Returns(NamedTuple):
    """The evaluation that the card reports."""

    mean: float
    std: float
    text: str


def hub_files(
    policy: Policy,
    repository: Repository,
    exported: Mapping[str, bytes],
    environment: "str | Factory" = "",
) -> dict[str, bytes]:
    """The files of a model repository besides the exports, README.md first.

    `environment`: the task to play instead of the one in the policy file.
    """
    files = {"policy.safetensors": policy_bytes(policy.tensors, policy.card)}
    settings, versions = policy_settings(policy), policy.card.get("versions", {})
    if repository.run:
        config, versions = read_config(repository.run)
        tables = {key: table for key, table in to_dict(config).items() if key != "track"}
        files["recipe.toml"] = to_toml(tables).encode()
        settings = dict(dotted(tables))
    if film := film_bytes(policy, repository):
        files["replay.mp4"] = film
    names = [name for name in FILES if name in files or name in exported]
    returns = measure(policy, environment)
    card = CARD.format(
        header=front_matter(policy, repository.licence, returns),
        task=escape(policy.environment.id),
        returns=returns.text,
        film="## Film\n\n[replay.mp4](replay.mp4)\n\n" if film else "",
        files=markdown_table(["file", "what"], [[f"`{name}`", FILES[name]] for name in names], 2),
        reproduce=reproduction(policy, repository),
        settings=settings_table(settings | versioned(versions)),
        licence=escape(repository.licence),
    )
    return {"README.md": card.encode(), **files}


def front_matter(policy: Policy, licence: str, returns: Returns) -> str:
    """YAML that the Hub reads. Each value is JSON, which YAML contains."""
    task = policy.environment.id
    table: dict[str, Any] = {
        "library_name": "td3",
        "license": licence,
        "pipeline_tag": "reinforcement-learning",
        "tags": ["reinforcement-learning", "deep-reinforcement-learning", "TD3", "td3", task],
    }
    if math.isfinite(returns.mean):
        kind = {"type": "reinforcement-learning", "name": "reinforcement-learning"}
        value = f"{returns.mean:.2f} +/- {returns.std:.2f}"
        metric = {"type": "mean_reward", "name": "mean_reward", "value": value, "verified": False}
        result = {"task": kind, "dataset": {"name": task, "type": task}, "metrics": [metric]}
        table["model-index"] = [{"name": "TD3", "results": [result]}]
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in table.items())


def measure(policy: Policy, environment: "str | Factory" = "") -> Returns:
    """The returns of test episodes: stored in the policy, played now, or those of training."""
    tested = policy.card.get("tested")
    if isinstance(tested, dict):
        mean, std, low, high = (
            float(tested[key])
            for key in ("mean_return", "std_return", "mean_return_low", "mean_return_high")
        )
        return Returns(mean, std, returns_text(tested["episodes"], mean, std, (low, high)))
    try:
        found = policy.evaluate(EPISODES, environment=environment)
    except UserError:  # for example its simulator is not installed
        mean, std = policy.mean_return, float(policy.card.get("std_return", "nan"))
        text = (
            f"Mean return {number(mean, 4)} in the evaluation that chose this policy during "
            "training, which is biased upwards. The task could not be played for this card."
        )
        return Returns(mean, std, text)
    text = returns_text(EPISODES, found.mean, found.std, found.interval)
    check = f"```sh\ntd3 evaluate policy.safetensors --episodes {EPISODES}\n```"
    return Returns(found.mean, found.std, f"{text}\n\n{check}")


def returns_text(episodes: int, mean: float, std: float, interval: tuple[float, float]) -> str:
    low, high = (number(end, 4) for end in interval)
    header = ["episodes", "mean return", "95 % interval of the mean", "standard deviation"]
    row = [f"{episodes:,}", number(mean, 4), f"{low} to {high}", number(std)]
    when = "Noise-free episodes that played no part in choosing the policy."
    return f"{when}\n\n{markdown_table(header, [row], 0)}"


def reproduction(policy: Policy, repository: Repository) -> str:
    """The command that trains this policy again, as far as it is known."""
    chosen, seed, step = (policy.card.get(key) for key in ("chosen_from", "seed", "step"))
    when = f"The policy is that of seed {seed} at step {step}."
    if repository.run:
        return f"```sh\ntd3 train --recipe ./recipe.toml\n```\n\n{when}"
    if chosen:
        flags = f"--recipe {chosen['recipe']} --seeds {chosen['seeds']} --steps {chosen['steps']}"
        return f"```sh\ntd3 train {policy.environment.id} {flags}\n```\n\n{when}"
    return "The run of this policy was not exported with it, so its recipe is not known."


def policy_settings(policy: Policy) -> dict[str, Any]:
    """What the policy file records about the training."""
    names = ("hidden_sizes", "channels", "features", "normalize_observations", "reward_scale")
    known = {name: policy.card[name] for name in names if name in policy.card}
    return {**dict(dotted({"environment": policy.card["environment"]})), **known}


def versioned(versions: Mapping[str, Any]) -> dict[str, Any]:
    known = ("python", "td3", "torch", "numpy", "gymnasium", "mujoco", "pybullet", "commit")
    return {f"version of {name}": versions[name] for name in known if name in versions}


def settings_table(settings: Mapping[str, Any]) -> str:
    shown = [
        [
            escape(key),
            escape(", ".join(map(str, value)) if isinstance(value, tuple) else str(value)),
        ]
        for key, value in settings.items()
    ]
    return markdown_table(["setting", "value"], shown, 2)


def film_bytes(policy: Policy, repository: Repository) -> bytes | None:
    """The film of the policy, if there is one."""
    path = repository.film
    if path is None and repository.run:
        path = repository.run / "videos" / f"{policy.name}.mp4"
        if path.is_symlink() or not path.is_file():
            return None
    if path is None:
        return None
    try:
        return read_regular(path, LONGEST_FILM)
    except OSError as error:
        raise UserError(f"Cannot read the film {path}: {error.strerror}.") from error


def run_of(path: Path) -> Path | None:
    """The run folder that a path to a policy belongs to."""
    folder = path.parent if path.suffix == ".safetensors" else path
    folder = folder.parent if folder.name == "policy" else folder
    return folder if (folder / "config.toml").is_file() else None

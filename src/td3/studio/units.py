"""Dead units of the actors of a run, measured on states from its replay files."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.doctor.check import Check
from td3.doctor.learning_checks import check_units, dead_units
from td3.errors import UserError
from td3.files import open_to_read
from td3.policy.load import read_policy
from td3.run.manifest import Invalid, by_step, read_manifest
from td3.studio.media import policy_names

STATES = 2000
MOST_AGENTS = 64


def check_actors(folder: Path) -> tuple[list[Check], str]:
    """Warnings about dead units; and why they were not measured, or an empty text."""
    names = [name for name in policy_names(folder) if name.endswith("-last")]
    if not names:
        return [], "the run has no last policy"
    found: list[Check] = []
    for name in names[:MOST_AGENTS]:
        try:
            policy = read_policy(folder / "policy" / f"{name}.safetensors")
            if policy.actor is not None or policy.encoder is not None:
                return [], "only the layers of the stock actor are measured"
            width = policy.layers[0][0].shape[0]
            states = recent_states(folder, int(name.split("-")[1]), width)
            found += check_units(f"Agent {name.split('-')[1]}", dead_units(policy, states))
        except (UserError, Invalid, OSError, ValueError, KeyError) as error:
            return found, str(error).replace(f"{folder}/", "")
    return found, ""


def recent_states(folder: Path, agent: int, width: int) -> NDArray[np.float32]:
    """The last stored states of an agent. Raises Invalid without a usable replay file."""
    checkpoints = by_step(folder)
    segments = read_manifest(checkpoints[0])["segments"] if checkpoints else []
    if not segments:
        raise Invalid("there is no checkpoint with a replay file")
    newest: dict[str, Any] = segments[-1]
    spans = newest["tables"].get("rows")
    if spans is None or newest["dims"][0] != width or agent >= len(spans["stop"]):
        raise Invalid("the replay file has no plain states")
    counts = [b - a for a, b in zip(spans["start"], spans["stop"], strict=True)]
    row = 2 * width + newest["dims"][1] + 2
    if sum(counts) * row * 4 != newest["bytes"] or not counts[agent]:
        raise Invalid("the replay file has no plain states of this agent")
    taken = min(counts[agent], STATES)
    with open(folder / "replay" / newest["file"], "rb", opener=open_to_read) as file:
        file.seek((sum(counts[: agent + 1]) - taken) * row * 4)
        data = file.read(taken * row * 4)
    if len(data) != taken * row * 4:
        raise Invalid(f"{newest['file']} is shorter than its checkpoint says")
    states = np.frombuffer(data, dtype="<f4").reshape(taken, row)[:, :width]
    if not np.isfinite(states).all():
        raise Invalid(f"{newest['file']} has NaN or infinity")
    return np.asarray(states, dtype=np.float32)

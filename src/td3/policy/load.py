"""Find and load the policies of a run."""

import os
import re
from pathlib import Path
from typing import Any, Literal

from td3.config import from_dict
from td3.config.checks import check
from td3.errors import UserError, first_line, nearest
from td3.files import CURVES
from td3.policy.file import read_policy_file
from td3.policy.policy import Policy
from td3.policy.pretrained import names, run_or_pretrained

Which = Literal["best", "last"]
POLICY_FILES = {
    "best": re.compile(r"agent-[0-9]+\.safetensors"),
    "last": re.compile(r"agent-[0-9]+-last\.safetensors"),
}
KEPT = re.compile(r"agent-([0-9]+)-step-([0-9]+)\.safetensors")


def load_policy(
    run: str | os.PathLike[str] | None = None,
    agent: int | None = None,
    *,
    pretrained: str = "",
    which: Which = "best",
    variant: str | type[Any] | None = None,
) -> Policy:
    """Load one policy of a run.

    Args:
        run: A `Run`, a run folder, its `policy` folder, or one `.safetensors` file.
        agent: Number of the agent. Default: the agent with the highest mean return.
        pretrained: A task with a pretrained policy, instead of `run`, for example "Hopper-v5".
        which: "best" for the policy with the highest evaluation, "last" for the newest one.
        variant: Class or name of the variant, if the policy acts in its own way and its module was
            not imported yet.

    Returns:
        The policy.

    Raises:
        UserError: There is no such policy, or its file is damaged.
    """
    path = run_or_pretrained(None if run is None else Path(run), pretrained)
    return max(policies_of(path, agent, which, variant), key=lambda policy: policy.mean_return)


def policies_of(
    path: Path,
    agent: int | None = None,
    which: Which = "best",
    variant: str | type[Any] | None = None,
) -> list[Policy]:
    """The policies of all agents of a run, or of one agent."""
    if which not in POLICY_FILES:
        raise UserError(f"which must be best or last, not {which!r}.")
    if path.suffix == ".safetensors":
        if agent is not None or which != "best":
            raise UserError(f"{path} is one policy; choose an agent or 'last' of a run folder.")
        return [read_policy(path, variant)]
    folder = policy_folder(path)
    try:
        found = [name for name in os.listdir(folder) if POLICY_FILES[which].fullmatch(name)]
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    files = sorted((folder / name for name in found), key=lambda file: (len(file.stem), file.stem))
    if agent is not None:
        wanted = f"agent-{agent}" + ("-last" if which == "last" else "")
        files = [file for file in files if file.stem == wanted]
    if not files:
        whose = f"agent {agent}" if agent is not None else "any agent"
        kind = "last policy" if which == "last" else "policy"
        raise UserError(f"No {kind} of {whose} in {path}: {why_none(path, found)}.")
    return [read_policy(file, variant) for file in files]


def policy_folder(path: Path) -> Path:
    """The folder with the policies of a run. Raises UserError if there is none."""
    try:
        folder = path / "policy" if (path / "policy").is_dir() else path
        if folder.is_file():
            raise UserError(f"{path} is neither a run folder nor a .safetensors file.")
        if folder.is_dir():
            return folder
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    if str(path) in names():
        raise UserError(
            f"There is no run {path}. For the pretrained policy use --pretrained {path}, "
            f"or load_policy(pretrained={str(path)!r})."
        )
    siblings = [str(other) for other in path.parent.glob("*") if other.is_dir()]
    raise UserError(f"{path} does not exist.{nearest(str(path), siblings)}")


def why_none(path: Path, found: list[str]) -> str:
    """Why a folder does not contain the policy that was asked for."""
    if found:
        return f"it has {', '.join(Path(name).stem for name in sorted(found))}"
    if (path / CURVES).is_file():
        return "it contains results without policies"
    if (path / "config.toml").is_file():
        return "no evaluation of this run has written one"
    return "it is not a run folder (no config.toml)"


def read_policy(path: Path, variant: str | type[Any] | None = None) -> Policy:
    """Load one policy from its file."""
    card, tensors = read_policy_file(path)
    try:
        check(from_dict({"environment": card["environment"]}))
    except UserError as error:
        raise UserError(f"The policy {path} does not fit its card: {error}") from error
    try:
        return Policy(card, tensors, path.stem, variant=variant)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"The policy {path} does not fit its card: {first_line(error)}.") from error

"""`td3.export`: write a policy in another format."""

import os
from collections.abc import Sequence
from pathlib import Path

from td3.api.files import Files
from td3.environments.factories import Factory
from td3.errors import UserError
from td3.exports.check import OBSERVATIONS, check_export
from td3.exports.export import make_export
from td3.exports.hub import Repository, run_of
from td3.exports.vectors import VECTORS
from td3.policy.load import Which, load_policy
from td3.policy.policy import Policy
from td3.policy.snapshots import number_of, snapshots


def export(
    policy: Policy | str | os.PathLike[str],
    to: str | Sequence[str],
    out: str | os.PathLike[str] | None = None,
    *,
    every: int | None = None,
    check: bool = False,
    licence: str = "mit",
    film: str | os.PathLike[str] | None = None,
    environment: "str | Factory" = "",
) -> Files:
    """Write a policy in other formats, as `td3 export` does.

    Args:
        policy: A policy, a `Run`, or the path of a run or of a policy file.
        to: One format or several: "numpy", "c", "js", "onnx", "torch", and
            "hub": all of them and a card, a Hugging Face model repository.
        out: Folder to write to. Default: `exports` and the policy's name, in the run folder if
            `policy` is a run.
        every: Export the policies that a run kept, instead of one: the first one at or after each
            multiple of this number of steps, and the best one. Each gets a folder of its own in
            `out`: `step-20000` and so on, and `best`.
        check: Whether to run the self-tests of the formats whose runtimes are installed, with
            10,000 observations.
        licence: Licence in the card of "hub", an identifier of the Hub.
        film: An mp4 file for "hub". Default: the one in `videos` of the run, if there is one.
        environment: Id, class or function of the task that gives the test vectors, instead of the
            one in the policy file. A task `module:Env-v0` or `module:name` needs it; without it
            their observations are random.

    Returns:
        The paths of the written files.

    Raises:
        UserError: There is no such policy or format, the format cannot hold the policy, a
            self-test failed, or `every` is given and the run kept no policies.

    Example:
        td3.export(td3.load_policy(pretrained="Hopper-v5"), "c", out="hopper")
    """
    source = None if isinstance(policy, Policy) else Path(policy)
    formats = [to] if isinstance(to, str) else list(to)
    run = None if source is None else run_of(source)
    repository = Repository(run, Path(film) if film else None, licence)
    files = Files()
    for folder, own in export_folders(policy, out, every).items():
        count = OBSERVATIONS if check else VECTORS
        made = make_export(own, formats, count, repository, environment)
        failed = [one for one in check_export(made) if one.passed is False] if check else []
        if failed:
            raise UserError(f"The self-test {failed[0].name} failed: {failed[0].text}")
        files += made.write(folder)
    return files


def export_folders(
    policy: Policy | str | os.PathLike[str],
    out: str | os.PathLike[str] | None,
    every: int | None,
    agent: int | None = None,
    which: Which = "best",
    variant: str | None = None,
) -> dict[Path, Policy]:
    """Folder → policy to export there: one, or with `every` those that a run kept."""
    source = Path() if isinstance(policy, Policy) else Path(policy)
    default = (source if source.is_dir() else Path()) / "exports"
    if every is None:
        if not isinstance(policy, Policy):
            policy = load_policy(source, agent, which=which, variant=variant)
        return {Path(out) if out else default / policy.name: policy}
    if isinstance(policy, Policy):
        raise UserError("every needs a run, not a policy.")
    found = snapshots(source, every, agent, which=which, variant=variant)
    folder = Path(out) if out else default / f"agent-{number_of(found[which])}"
    return {folder / name: own for name, own in found.items()}

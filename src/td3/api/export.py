"""`td3.export`: write a policy in another format."""

import os
from collections.abc import Sequence
from pathlib import Path

from td3.api.files import Files
from td3.errors import UserError
from td3.exports.check import OBSERVATIONS, check_export
from td3.exports.export import make_export
from td3.exports.hub import Repository, run_of
from td3.exports.vectors import VECTORS
from td3.policy.load import load_policy
from td3.policy.policy import Policy


def export(
    policy: Policy | str | os.PathLike[str],
    to: str | Sequence[str],
    out: str | os.PathLike[str] | None = None,
    *,
    check: bool = False,
    licence: str = "mit",
    film: str | os.PathLike[str] | None = None,
) -> Files:
    """Write a policy in other formats, as `td3 export` does.

    Args:
        policy: A policy, a `Run`, or the path of a run or of a policy file.
        to: One format or several: "numpy", "c", "js", "onnx", "torch", and
            "hub": all of them and a card, a Hugging Face model repository.
        out: Folder to write to. Default: `exports` and the policy's name, in the run folder if
            `policy` is a run.
        check: Whether to run the self-tests of the formats whose runtimes are installed, with
            10,000 observations.
        licence: Licence in the card of "hub", an identifier of the Hub.
        film: An mp4 file for "hub". Default: the one in `videos` of the run, if there is one.

    Returns:
        The paths of the written files.

    Raises:
        UserError: There is no such policy or format, the format cannot hold the policy, or a
            self-test failed.

    Example:
        td3.export(td3.load_policy(pretrained="Hopper-v5"), "c", out="hopper")
    """
    folder, run = Path(), None
    if not isinstance(policy, Policy):
        run = run_of(Path(policy))
        folder = Path(policy) if Path(policy).is_dir() else folder
        policy = load_policy(policy)
    formats = [to] if isinstance(to, str) else list(to)
    repository = Repository(run, Path(film) if film else None, licence)
    made = make_export(policy, formats, OBSERVATIONS if check else VECTORS, repository)
    failed = [own for own in check_export(made) if own.passed is False] if check else []
    if failed:
        raise UserError(f"The self-test {failed[0].name} failed: {failed[0].text}")
    return Files(made.write(Path(out) if out else folder / "exports" / policy.name))

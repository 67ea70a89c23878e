"""Which policies `td3 play` shows."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from td3.errors import UserError
from td3.play.entries import tasks
from td3.play.site import Shown
from td3.policy.load import policies_of, policy_folder, read_policy
from td3.policy.policy import Policy
from td3.policy.pretrained import names, pretrained
from td3.policy.snapshots import kept_policies, number_of, snapshots

FILMS = Path(__file__).parent / "films"
"""Of the pretrained policies that the page cannot simulate."""


def pretrained_policies() -> list[Shown]:
    """The policies in the package; those that the page can simulate first."""
    order = [task for task in tasks() if task in names()]
    order += [task for task in names() if task not in order]
    return [shown_pretrained(task) for task in order]


def shown_pretrained(task: str) -> Shown:
    film = FILMS / f"{task}.mp4"
    policy = read_policy(pretrained(task))
    return Shown(policy, task, f"{task}, pretrained", film if film.is_file() else None)


def policies_to_play(paths: Iterable[Path], task: str, every: int = 0) -> list[Shown]:
    """The policies of runs and files, and the pretrained ones of the same tasks to compare with.

    Without a run, a file or a task: all pretrained policies. With `every`, only the policies of
    runs: of each the one at each multiple of this number of steps, and the best one.

    Raises:
        UserError: A path has no policy, no task has this name, or a run kept no policies.
    """
    paths = list(paths)
    if every and not paths:
        raise UserError("--every needs a run folder: td3 play RUN --every 20000.")
    if not paths and not task:
        return pretrained_policies()
    shown = [shown for path in paths for shown in policies_at(path, every)]
    wanted = set() if every else {item.policy.environment.id for item in shown} & set(names())
    if task:
        wanted.discard(task)
        shown = [shown_pretrained(task), *shown]
    return shown + [shown_pretrained(other) for other in sorted(wanted)]


def policies_at(path: Path, every: int = 0) -> list[Shown]:
    """The policy of a file; or the best and the last policy of every agent of a run.

    Of the best agent also those that the run kept; with `every`, only these and the best one.
    """
    if every:
        found = list(snapshots(path, every).values())
        return [show_of_run(run_folder(path), policy) for policy in found]
    found = policies_of(path)
    if path.suffix == ".safetensors":
        return [Shown(found[0], path.stem, f"{path.name}, {found[0].environment.id}")]
    with contextlib.suppress(UserError):  # runs of version 0.1 kept only the best
        found += policies_of(path, which="last")
    best = max(found, key=lambda policy: policy.mean_return)
    found += kept_policies(path, number_of(best)).values()
    return [show_of_run(run_folder(path), policy) for policy in found]


def run_folder(path: Path) -> Path:
    """The run of a path that may be its `policy` folder."""
    folder = policy_folder(path)
    return folder.parent if folder.name == "policy" else folder


def show_of_run(run: Path, policy: Policy) -> Shown:
    film = run / "videos" / f"{policy.name}.mp4"
    name = run.resolve().name
    label = f"{name}: {policy.name}, {policy.environment.id}"
    return Shown(policy, f"{name}-{policy.name}", label, film if is_plain(film) else None)


def is_plain(path: Path) -> bool:
    """Whether a file is inside the run, not a link to elsewhere."""
    return path.is_file() and not path.is_symlink() and not path.parent.is_symlink()

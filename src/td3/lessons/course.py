"""The capstone's material: stored curves of the walkers, and film strips."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from td3.errors import UserError
from td3.policy.policy import Policy
from td3.report.summary import read_series

IN_PACKAGE = Path(__file__).parent / "curves"
IN_CHECKOUT = Path(__file__).parents[3] / "benchmarks" / "results" / "course"


def stored_curves(task: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Learning curves with the walk-throughs' settings, trained on a GPU.

    Returns:
        The steps, and the mean returns of all seeds, (seeds, evaluations).

    Raises:
        UserError: There are none of this task.
    """
    folder = (IN_PACKAGE if IN_PACKAGE.is_dir() else IN_CHECKOUT) / task
    if not (folder / "curves.csv").exists():
        raise UserError(f"There are no stored curves of {task}.")
    series = read_series(folder)[0]
    seeds = [records for (kind, _), records in sorted(series.items()) if kind == "evaluation"]
    steps = np.array([record["step"] for record in seeds[0]], dtype=np.float64)
    return steps, np.array([[record["mean_return"] for record in records] for records in seeds])


def film_strip(policy: Policy, frames: int = 6, every: int = 30) -> NDArray[np.uint8]:
    """Frames of one episode side by side, one every so many steps: an image, (height, width, 3)."""
    from td3.policy.video import make_renderable, render

    environment = make_renderable(policy.environment)
    state, shown, over = environment.reset(1_000_000), [], False
    for step in range(frames * every):
        if step % every == 0:
            shown.append(render(environment))
        if not over:  # the last picture of an episode stays
            state, _, terminated, truncated = environment.step(policy.act(state))
            over = terminated or truncated
    environment.close()
    return np.concatenate(shown, axis=1)

"""`td3.Run`: what training gave, live or read from its folder."""

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from td3.api.files import Files
from td3.api.notebook import describe_run, run_page
from td3.api.records import read_table
from td3.api.table import Table
from td3.config import Config
from td3.errors import UserError
from td3.report.summary import RunSummary, read_run
from td3.run.folder import read_config

if TYPE_CHECKING:  # at run time they would load torch
    from td3.algorithm.agent import TD3
    from td3.algorithm.replay_base import Replay
    from td3.policy.policy import Policy


class Run:
    """A run: its folder, its agent, its policies and its results.

    `td3.train`, `td3.resume` and `td3.load_run` return it. Everything is read from the folder at
    first use and then kept, so a run that goes on in another process needs `td3.load_run` again.
    A Run works wherever a path of the run folder is expected; `str(run)` is that path.

    Args:
        folder: The run folder.
        agent: The trained agent, if it is in memory. Default: read from the newest checkpoint.
        replay: The same for the replay buffer.
        device: Where to load agent and replay buffer.

    Example:
        run = td3.train("Pendulum-v1", recipe="quick")
        run.evaluations["mean_return"]
        run.policy(observation)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        agent: "TD3 | None" = None,
        replay: "Replay | None" = None,
        device: str = "cpu",
    ) -> None:
        self.folder = Path(folder)
        self._agent, self._replay, self._device = agent, replay, device

    def __fspath__(self) -> str:
        return str(self.folder)

    def __str__(self) -> str:
        return str(self.folder)

    def __truediv__(self, name: str) -> Path:
        """A path in the run folder: `run / "metrics.jsonl"`."""
        return self.folder / name

    def __repr__(self) -> str:
        try:
            return f"Run({self.folder}: {describe_run(self.summary)})"
        except (OSError, UserError):  # the folder is gone
            return f"Run({self.folder})"

    def _repr_html_(self) -> str:
        return run_page(self.summary, self.config)

    @property
    def agent(self) -> "TD3":
        """All agents of the run as one live `TD3`: networks, targets, optimizers.

        Raises:
            UserError: It is not in memory, and the run has no checkpoint.
        """
        if self._agent is None:
            from td3.launch.restore import restore_agent

            self._agent = restore_agent(self.folder, self._device)
        return self._agent

    @property
    def replay(self) -> "Replay":
        """The replay buffer, filled. Raises UserError as `agent` does."""
        if self._replay is None:
            from td3.launch.restore import restore_replay

            self._replay = restore_replay(self.folder, self._device)
        return self._replay

    @cached_property
    def policy(self) -> "Policy":
        """The best policy of the best agent. `td3.load_policy(run, agent=1)` gives another one."""
        from td3.policy.load import load_policy

        return load_policy(self.folder)

    @cached_property
    def last_policy(self) -> "Policy":
        """The policy of the last evaluation; with several agents, the best of these."""
        from td3.policy.load import load_policy

        return load_policy(self.folder, which="last")

    @cached_property
    def evaluations(self) -> Table:
        """One row per evaluation and agent: step, agent, seed, mean_return, returns, …"""
        return read_table(self.folder, "evaluation")

    @cached_property
    def metrics(self) -> Table:
        """One row per logging interval and agent: step, agent, seed, critic_loss, q, …"""
        return read_table(self.folder, "train")

    @cached_property
    def config(self) -> Config:
        """All settings."""
        return read_config(self.folder)[0]

    @cached_property
    def summary(self) -> RunSummary:
        """The contents of the folder as the reports use them."""
        return read_run(self.folder)

    @property
    def finished(self) -> bool:
        """Whether the run has taken all its steps."""
        return self.summary.status == "finished"

    def plot(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        x: Literal["steps", "hours"] = "steps",
        reference: str | os.PathLike[str] | None = None,
        reference_label: str = "reference",
    ) -> Files:
        """Draw the learning curve, as `td3 plot` does. Needs the extra `plot`.

        Args:
            out: Files to write, without suffix. Default: `plots/curves` in the run folder.
            x: Environment steps or hours on the x axis.
            reference: A CSV file with curves to compare with.
            reference_label: Name of these curves.

        Returns:
            The PNG and the SVG; a notebook shows the figure.
        """
        from td3.report.plots import plot

        where = Path(out) if out else self.folder / "plots" / "curves"
        if where.suffix in (".png", ".svg"):
            where = where.with_suffix("")
        given = Path(reference) if reference else None
        return Files(plot([read_run(self.folder)], where, x, given, reference_label))

    def video(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        agent: int | None = None,
        which: Literal["best", "last"] = "best",
        **options: Any,
    ) -> Files:
        """Film a policy, as `td3 video` does. Needs the extra `video`.

        Args:
            out: Files to write, without suffix. Default: in `videos` in the run folder.
            agent: Number of the agent. Default: the best one.
            which: The policy with the best evaluation, or the last one.
            **options: `episodes`, `seconds`, `seed`, `environment` and `caption`, as for the
                command.

        Returns:
            The mp4 and the GIF; a notebook shows the GIF.
        """
        from td3.policy.load import load_policy
        from td3.policy.video import film

        policy = load_policy(self.folder, agent, which=which)
        where = Path(out) if out else self.folder / "videos" / policy.name
        return Files(film(policy, where, **options))

    def report(self, out: str | os.PathLike[str] | None = None) -> Files:
        """Write one page about the run, as `td3 report` does. Needs the extra `plot`.

        Args:
            out: Folder to write to. Default: the run folder.

        Returns:
            The paths of `report.md` and `report.html`.
        """
        from td3.report.page import write_report

        where = Path(out) if out else self.folder
        return Files(write_report([read_run(self.folder)], where))

    def copy(self, folder: str | os.PathLike[str], *, at: int | None = None) -> "Run":
        """Copy the run as it was at one checkpoint, as `td3 copy` does; also during training.

        Args:
            folder: The new run folder.
            at: Step of the checkpoint. Default: the newest.

        Returns:
            The new run, which `td3.resume` continues.
        """
        from td3.run.copies import copy_run

        copy_run(self.folder, Path(folder), at)
        return Run(folder, device=self._device)


def load_run(folder: str | os.PathLike[str], *, device: str = "cpu") -> Run:
    """Read a run: finished, stopped or going on, of this machine or copied from another one.

    Nothing is written into the folder. Agent and replay buffer come from the newest valid
    checkpoint and load at first use.

    Args:
        folder: The run folder.
        device: Where to load agent and replay buffer: "cpu", "cuda" or "auto".

    Raises:
        UserError: The folder is not a run.

    Example:
        run = td3.load_run("runs/my-run")
        run.agent.actor
    """
    run = Run(folder, device=device)
    _ = run.summary  # refuse another folder now
    return run

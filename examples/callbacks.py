"""Log every episode to a file and stop when training returns are good enough.

python examples/callbacks.py --goal -300         # about half a minute
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

# --8<-- [start:callback]
import td3


class EpisodeLog(td3.Callback):
    """Writes one line per training episode; stops when the last ten reach a mean return."""

    def __init__(self, goal=float("inf")):
        self.goal, self.returns = goal, []

    def on_start(self, run):
        self.file = (run.folder / "episodes.csv").open("a", newline="")

    def on_episode(self, run, episode):
        csv.writer(self.file).writerow([run.step, episode.seed, episode.episode_return])
        self.returns = [*self.returns, episode.episode_return][-10:]
        if sum(self.returns) / 10 >= self.goal and len(self.returns) == 10:
            return td3.STOP(f"the last ten episodes reached {self.goal:,.0f}")
        return None

    def on_end(self, run):
        self.file.close()


# --8<-- [end:callback]


def main(arguments: Sequence[str] | None = None) -> Path:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--goal", type=float, default=-300)
    parser.add_argument("--run", type=Path, default=Path("runs/callback-example"))
    given = parser.parse_args(arguments)
    run = td3.train(
        "Pendulum-v1",
        recipe="quick",
        steps=given.steps,
        run=given.run,
        callbacks=[EpisodeLog(given.goal)],
    )
    print((given.run / "episodes.csv").read_text(encoding="utf-8"))
    return Path(run)


if __name__ == "__main__":
    main()

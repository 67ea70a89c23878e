"""Read the metrics of runs and plot them with matplotlib.

python examples/plot_runs.py benchmarks/results/halfcheetah-v5-100k --out curves.png

`td3 plot` draws means and intervals over seeds; this script is for figures of your own.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import td3


# --8<-- [start:read]
def read_metric(folder: Path, kind: str, name: str) -> dict[int, list[tuple[int, float]]]:
    """Seed → (step, value) of one metric, e.g. kind="evaluations", name="mean_return"."""
    table = getattr(td3.load_run(folder), kind)
    curves: dict[int, list[tuple[int, float]]] = {seed: [] for seed in table["seed"].tolist()}
    for row in table:
        if row[name] is not None:
            curves[row["seed"]].append((row["step"], row[name]))
    return curves


# --8<-- [end:read]


def main(arguments: Sequence[str] | None = None) -> Path:
    from matplotlib.figure import Figure

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("curves.png"))
    given = parser.parse_args(arguments)
    figure = Figure(figsize=(7, 5), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    for panel, (kind, name) in zip(
        panels, [("evaluations", "mean_return"), ("metrics", "critic_loss")], strict=True
    ):
        for run in given.runs:
            for seed, points in read_metric(run, kind, name).items():
                steps, values = zip(*points, strict=True)
                panel.plot(steps, values, label=f"{run.name}, seed {seed}")
        panel.set_ylabel(name.replace("_", " "))
    panels[0].legend()
    panels[1].set_xlabel("environment steps")
    figure.savefig(given.out)
    print(f"Wrote {given.out}")
    return given.out


if __name__ == "__main__":
    main()

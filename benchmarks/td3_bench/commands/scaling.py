"""python -m benchmarks scaling"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from td3.cli.bench import Learning, in_environment, run_measurement
from td3.errors import UserError

if TYPE_CHECKING:
    from td3.bench.measure import Benchmark, Rounds
    from td3.config import Config

AxisName = Literal["agents", "batch", "width", "environments"]


@dataclass(frozen=True)
class Arguments(Learning):
    """Measure how the cost grows: more agents, larger batches, wider layers, more environments.

    python -m benchmarks scaling --axes agents batch --plot scaling.png
    """

    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = ""
    """Task; default: HalfCheetah-v5, or Pendulum-v1 without MuJoCo."""
    axes: tuple[AxisName, ...] = ("agents", "batch", "width", "environments")
    """What grows."""
    coarse: bool = False
    """Only every second size: on a GPU each size has to be compiled first."""
    plot: Path | None = None
    """Draw a figure to this file, as PNG and as SVG."""


def run(arguments: Arguments) -> int:
    if not arguments.axes:
        raise UserError("Name at least one axis: agents, batch, width, environments.")
    if arguments.plot and not arguments.plot.parent.is_dir():
        raise UserError(f"The folder {arguments.plot.parent} does not exist.")
    from benchmarks.td3_bench.tables import print_scaling

    def measure(config: "Config", rounds: "Rounds") -> "Benchmark":
        from benchmarks.td3_bench.scaling import bench_scaling

        config = in_environment(config, arguments.environment)
        found = bench_scaling(config, arguments.axes, rounds, coarse=arguments.coarse)
        if arguments.plot:
            from benchmarks.td3_bench.scaling_plot import plot_scaling

            for path in plot_scaling([found.as_dict()], arguments.plot.with_suffix("")):
                print(f"Wrote {path}", file=sys.stderr)
        return found

    return run_measurement(arguments, measure, print_scaling)

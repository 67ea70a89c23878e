"""python -m benchmarks update"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from td3.cli.bench import Update, run_measurement

if TYPE_CHECKING:
    from td3.bench.measure import Benchmark, Rounds
    from td3.config import Config


@dataclass(frozen=True)
class Arguments(Update):
    """Measure updates alone, in turn with the bare matrix products of the same shapes.

    python -m benchmarks update --agents 10
    """


def run(arguments: Arguments) -> int:
    def measure(config: "Config", rounds: "Rounds") -> "Benchmark":
        from benchmarks.td3_bench.matrix_products import bench_update_and_products

        return bench_update_and_products(config, arguments.state_dim, arguments.action_dim, rounds)

    return run_measurement(arguments, measure)

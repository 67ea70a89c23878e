"""python -m benchmarks images"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from td3.cli.bench import Learning, run_measurement

if TYPE_CHECKING:
    from td3.bench.measure import Benchmark, Rounds
    from td3.config import Config


@dataclass(frozen=True)
class Arguments(Learning):
    """Measure updates on a full replay buffer of random images, in turn with sampling alone.

    python -m benchmarks images --recipe pixels
    """

    action_dim: int = 6
    """Numbers in an action."""


def run(arguments: Arguments) -> int:
    def measure(config: "Config", rounds: "Rounds") -> "Benchmark":
        from benchmarks.td3_bench.images import bench_images

        return bench_images(config, arguments.action_dim, rounds)

    return run_measurement(arguments, measure)

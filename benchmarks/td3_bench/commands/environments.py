"""python -m benchmarks environments"""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from td3.cli.bench import Measurement, in_environment, run_measurement

if TYPE_CHECKING:
    from td3.bench.measure import Benchmark, Rounds
    from td3.config import Config

COUNTS = (1, 2, 4, 8, 10, 16, 32)


@dataclass(frozen=True)
class Arguments(Measurement):
    """Measure one step of 1 to 32 environments with random actions, in one process and in workers.

    python -m benchmarks environments HalfCheetah-v5 --seconds 0.2
    """

    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = ""
    """Task; default: HalfCheetah-v5, or Pendulum-v1 without MuJoCo."""
    workers: int = 0
    """Worker processes; 0: as many as there are free cores."""


def run(arguments: Arguments) -> int:
    def measure(config: "Config", rounds: "Rounds") -> "Benchmark":
        from benchmarks.td3_bench.environments import bench_environments

        config = in_environment(config, arguments.environment)
        environment = dataclasses.replace(config.environment, workers=arguments.workers)
        config = dataclasses.replace(config, environment=environment)
        return bench_environments(config, rounds, COUNTS)

    return run_measurement(arguments, measure)

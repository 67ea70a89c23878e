"""python -m benchmarks peers"""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from td3.cli.bench import Measurement, in_environment, run_measurement

if TYPE_CHECKING:
    from td3.bench.measure import Benchmark, Rounds
    from td3.config import Config


@dataclass(frozen=True)
class Arguments(Measurement):
    """Measure the same training with every other library that is installed, one update per step.

    Install them with: pip install -r benchmarks/peers.txt. The code of the TD3 authors is a clone
    of github.com/sfujim/TD3. A library that is missing or fails is listed with the reason.

    python -m benchmarks peers --threads 1 2 --seconds 5
    """

    environment: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENVIRONMENT")] = ""
    """Task; default: HalfCheetah-v5, or Pendulum-v1 without MuJoCo."""
    threads: tuple[int, ...] = (1,)
    """Numbers of CPU threads; the best one of each library counts."""
    precision: Literal["tf32", "float32", "bf16"] = "tf32"
    """Arithmetic of td3's matrix products on a GPU."""
    source: Path = Path("carry/authors")
    """Folder with TD3.py and utils.py of github.com/sfujim/TD3."""


def run(arguments: Arguments) -> int:
    from benchmarks.td3_bench.tables import print_comparison

    def measure(config: "Config", rounds: "Rounds") -> "Benchmark":
        from benchmarks.td3_bench.peers.comparison import bench_peers

        os.environ["TD3_SOURCE"] = str(arguments.source)  # for the processes of the libraries
        config = in_environment(config, arguments.environment)
        config = dataclasses.replace(config, precision=arguments.precision)
        return bench_peers(config, arguments.threads, rounds)

    return run_measurement(arguments, measure, print_comparison)

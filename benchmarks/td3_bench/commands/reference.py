"""python -m benchmarks reference"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Arguments:
    """Write the learning curves of the TD3 authors, every seed, to one CSV file.

    The results page and the README compare td3 with these curves. 'td3 plot --reference' reads the
    file, too.

    python -m benchmarks reference --source ~/TD3
    """

    source: Path = Path("carry/authors")
    """Clone of github.com/sfujim/TD3, with its folder learning_curves."""
    out: Path = Path("benchmarks/reference/td3_authors_curves.csv")
    """File to write; the authors' licence is copied next to it."""


def run(arguments: Arguments) -> int:
    from benchmarks.td3_bench.published import write_reference

    tasks = write_reference(arguments.source, arguments.out)
    print(f"Wrote {arguments.out}: {', '.join(tasks)}")
    return 0

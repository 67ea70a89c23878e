"""What may happen to a file of a run."""

import random
from pathlib import Path


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Change one bit."""
    data, rng = bytearray(path.read_bytes()), random.Random(path.name)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)

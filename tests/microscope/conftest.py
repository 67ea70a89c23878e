"""Runs of TD3 and its variants, made once."""

from pathlib import Path

import pytest
from support.microscope import make_run


class Runs(dict[str, Path]):
    """A run of each variant, trained when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, variant: str) -> Path:
        kept = {} if variant else {"checkpoint.keep_every": 80}
        self[variant] = make_run(self.folder / (variant or "td3"), variant, **kept)
        return self[variant]


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))

"""The code of the TD3 authors, in the loop of their main.py; TD3_SOURCE names their repository."""

import os
from pathlib import Path

from benchmarks.td3_bench.authors.training import AuthorsRun
from benchmarks.td3_bench.peers import make_environment, train_in_pieces
from td3.config import Config

SOURCE, DEFAULT_SOURCE = "TD3_SOURCE", "carry/authors"  # variable, and folder without it
STEPS = 10  # between two looks at the clock
HIDDEN = (256, 256)  # fixed in their file


class AuthorsTrainer:
    def __init__(self, config: Config, plain: bool) -> None:
        if config.agent.hidden_sizes != HIDDEN:
            raise RuntimeError("its file has layers of 256 and 256 units only")
        source = Path(os.environ.get(SOURCE, DEFAULT_SOURCE))
        self.run = AuthorsRun(source, config, Path(), plain, make_environment(config))

    def train(self, seconds: float) -> tuple[int, float]:
        return train_in_pieces(self.advance, seconds)

    def advance(self) -> int:
        for _ in range(STEPS):
            self.run.advance()
        return STEPS


def start(config: Config) -> AuthorsTrainer:
    return AuthorsTrainer(config, plain=True)

"""td3 itself, with the loop of 'td3 train'."""

import tempfile
from pathlib import Path

import torch

from td3.bench.throughput import train_for, warm_up
from td3.config import Config
from td3.launch.assembly import assemble


class OwnTrainer:
    def __init__(self, config: Config) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="td3-bench-")
        self.training = assemble(config, Path(self.folder.name))
        warm_up(self.training)

    def train(self, seconds: float) -> tuple[int, float]:
        return train_for(self.training, seconds, torch.device(self.training.config.device))


def start(config: Config) -> OwnTrainer:
    return OwnTrainer(config)

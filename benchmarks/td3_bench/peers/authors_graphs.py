"""The authors' code with its update and its actor as CUDA graphs, the method of LeanRL."""

from benchmarks.td3_bench.peers.authors import AuthorsTrainer
from td3.config import Config


def start(config: Config) -> AuthorsTrainer:
    if not config.device.startswith("cuda"):
        raise RuntimeError("CUDA graphs need a GPU")
    return AuthorsTrainer(config, plain=False)

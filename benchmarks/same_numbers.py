"""Check that two checkouts train to the same bytes: python -m benchmarks.same_numbers OTHER

Seven small runs on a CPU with one thread, each trained with the code of this checkout and with that
of the checkout OTHER (e.g. made by `git worktree add OTHER COMMIT`). Compared are the metrics, and
every number of policies, checkpoints and replay segments.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.numpy import load_file

HERE = Path(__file__).parents[1]
COMMON = "--checkpoint.every 300 --agent.hidden-sizes 16 16 --device cpu --threads 1 --quiet"
STATES = (
    "--steps 700 --loop.random-steps 100 --loop.log-every 100 --evaluation.every 300 "
    f"--evaluation.episodes 2 --agent.batch-size 16 --loop.replay-size 2000 {COMMON}"
)
IMAGES = (
    "--recipe pixels-quick --steps 300 --loop.random-steps 100 --evaluation.every 200 "
    f"--evaluation.episodes 1 --agent.batch-size 8 --loop.replay-size 1000 {COMMON}"
)
RUNS = {
    "plan": f"Pendulum-v1 {STATES} --seeds 2",
    "eager": f"Pendulum-v1 {STATES} --execution eager --environment.normalize-observations",
    "grid": f"Pendulum-v1 {STATES} --grid agent.discount=0.9,0.99 agent.tau=0.01,0.005",
    "workers": f"Pendulum-v1 {STATES} --environment.count 3 --environment.vectorization workers "
    "--environment.workers 2",
    "episode": f"Pendulum-v1 {STATES} --loop.update episode",
    "cheetah": f"HalfCheetah-v5 {STATES}",
    "images": f"Pendulum-v1 {IMAGES}",
}


COMPARED = (
    "metrics.jsonl",
    "policy/agent-?.safetensors",
    "checkpoints/*/state.safetensors",
    "replay/*.rows",
)


def train(checkout: Path, words: str, run: Path) -> None:
    """Train one run with the code of a checkout."""
    command = [sys.executable, "-m", "td3", "train", *words.split(), "--run", str(run)]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.DEVNULL)


def find_differences(one: Path, other: Path) -> list[str]:
    """The files of run `one` that are missing or different in run `other`."""
    names = [path.relative_to(one) for kind in COMPARED for path in sorted(one.glob(kind))]
    return [str(name) for name in names if read(one / name) != read(other / name)]


def read(path: Path) -> object:
    """The content of a file; of tensors only the numbers, because cards name versions."""
    if not path.is_file():
        return None
    if path.suffix == ".safetensors":
        return {name: tensor.tobytes() for name, tensor in load_file(path).items()}
    return path.read_bytes()


def main(other: Path) -> int:
    """Train all runs twice and print which differ; returns an exit code."""
    different = 0
    for name, words in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            runs = [Path(folder) / "here", Path(folder) / "other"]
            for checkout, run in zip((HERE, other), runs, strict=True):
                train(checkout, words, run)
            found = find_differences(*runs)
        print(f"{name:<8} {'different: ' + ', '.join(found) if found else 'same'}", flush=True)
        different += bool(found)
    return int(different > 0)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1], "src", "td3").is_dir():
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).resolve()))

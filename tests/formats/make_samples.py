"""Write the stored samples of one commit. See README.md in this folder.

python tests/formats/make_samples.py FOLDER [NAME…]

It uses only the command line and public names, so that it runs with any commit on the path.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from sample_facts import AGENTS, agent_facts, make_agent, policy_facts, surroundings, transitions

TINY = (
    "Pendulum-v1 --agent.hidden-sizes 8 8 --agent.batch-size 16 --loop.steps 900 "
    "--agent.actor-learning-rate 0.003 --agent.critic-learning-rate 0.003 "
    "--loop.random-steps 100 --loop.replay-size 300 --loop.log-every 70 --evaluation.every 150 "
    "--evaluation.episodes 1 --checkpoint.every 100 --device cpu --threads 1"
)
IMAGES = (
    "--environment.pixels --environment.resize 16 --environment.grey --environment.frame-stack 3 "
    "--agent.channels 4 4 --agent.features 8 --agent.random-shift 1"
)
RUNS = {
    "single": "",
    "population": "--seeds 2 --grid agent.discount=0.98,0.99 --environment.normalize-observations",
    "frozen": "--grid agent.critic_learning_rate=0.001,1e30",
    "images": f"{IMAGES} --loop.steps 500 --evaluation.max-steps 40",
    "episode": "--loop.update episode --execution eager --environment.reward-scale 0.1",
    "kept": "--checkpoint.keep-every 300",
    "stacked": "--environment.frame-stack 3 --agent.n-step 3 --environment.count 2",
}
"""Name of each sample → what is added to TINY."""
INTERRUPT_AFTER = 350
"""Steps; the replay buffer has then started to overwrite its oldest transitions."""


def make_run(folder: Path, options: str) -> None:
    """A run that was interrupted, and the results of the same run without interruption."""
    words = [sys.executable, "-m", "td3", "train", *f"{TINY} {options}".split(), "--quiet", "--run"]
    subprocess.run([*words, "whole"], cwd=folder, check=True)
    (folder / "end").mkdir()
    for name in ("metrics.jsonl", "policy"):
        shutil.move(folder / "whole" / name, folder / "end" / name)
    shutil.rmtree(folder / "whole")

    process = subprocess.Popen([*words, "run"], cwd=folder)
    while last_progress(folder / "run/events.jsonl") < INTERRUPT_AFTER:
        assert process.poll() is None, "The run ended before it could be interrupted."
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130, "The run finished before it could be interrupted."
    (folder / "run/.lock").unlink()


def last_progress(events: Path) -> int:
    """The last step that events.jsonl mentions."""
    if not events.exists():
        return 0
    lines = events.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()
    return int(json.loads(lines[-1])["step"]) if lines else 0


def main(folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    facts: dict[str, Any] = {"surroundings": surroundings(), "policies": {}, "agents": {}}
    for name in names or RUNS:
        (folder / name).mkdir(parents=True)
        make_run(folder / name, RUNS[name])
    for file in sorted(folder.rglob("agent-*.safetensors")):
        facts["policies"][str(file.relative_to(folder))] = policy_facts(file)
    for name, seeds in AGENTS.items():
        agent = make_agent(seeds)
        agent.train(transitions(len(seeds)), 10)
        agent.save(name, folder / "agents")
        facts["agents"][name] = agent_facts(folder / "agents", name)
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

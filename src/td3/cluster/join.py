"""Put the results of populations together: one folder that reports and evaluation can read."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from td3.cluster.division import agents_of
from td3.cluster.driver import Population
from td3.config import Config
from td3.files import make_folder, replace_file
from td3.text import count

ORDER = ("train", "evaluation")


def join_results(config: Config, populations: Sequence[Population], folder: Path) -> None:
    """Write metrics.jsonl and policies of all agents, numbered as in one run."""
    numbers = {own.name: agents_of(config, own.config) for own in populations}
    records = [
        record for own in populations for record in renumbered(own.folder, numbers[own.name])
    ]
    records.sort(key=lambda own: (own["step"], ORDER.index(own["kind"]), own["agent"]))
    lines = (json.dumps(record).encode() + b"\n" for record in records)
    replace_file(folder / "metrics.jsonl", lines)
    make_folder(folder / "policy")
    for own in populations:
        for path in sorted((own.folder / "policy").glob("agent-*.safetensors")):
            _, number, *rest = path.stem.split("-", 2)
            name = "-".join(["agent", str(numbers[own.name][int(number)]), *rest])
            replace_file(folder / "policy" / f"{name}.safetensors", path.read_bytes())


def renumbered(folder: Path, agents: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The complete records of a population."""
    path = folder / "metrics.jsonl"
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        if line.endswith(b"\n"):
            record = json.loads(line)
            if record.get("kind") in ORDER:
                yield record | {"agent": agents[record["agent"]]}


def describe(populations: Sequence[Population]) -> str:
    """How many populations and agents, in words."""
    agents = sum(own.config.agents for own in populations)
    return f"{count(agents, 'agent')} in {count(len(populations), 'population')}"

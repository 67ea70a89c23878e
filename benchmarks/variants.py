"""Compare the speed of variants with TD3, and with plain PyTorch: python -m benchmarks.variants

All are measured in turn within each round, so the ratios hold on a noisy machine.
"""

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

import tyro

from td3.bench.measure import Rounds, describe_circumstances, measure_in_turn
from td3.bench.update import prepare_update
from td3.config import from_dict, load_recipe


@dataclass(frozen=True)
class Arguments:
    """Measure updates of each variant, fast and with plain PyTorch."""

    variants: tuple[str, ...] = ("huber", "layer_norm", "ensemble", "lap")
    """Built-in names, or module:Class."""
    recipes: tuple[str, ...] = ()
    """Recipes to measure too, each with its own settings."""
    agents: int = 1
    """Agents trained side by side."""
    threads: int = 1
    """CPU threads."""
    device: str = "auto"
    """cpu or cuda."""
    rounds: int = 5
    """Number of measurements of each."""
    seconds: float = 1.0
    """Length of each measurement."""
    out: Path | None = None
    """Write the figures as JSON."""


def compare(arguments: Arguments) -> dict[str, dict[str, list[float]]]:
    """Seconds per update of each variant ("" is TD3) and execution, one for each round."""
    base = load_recipe("paper")
    configs = {name: from_dict({"variant": name}, base) for name in ("", *arguments.variants)}
    configs |= {f"recipe {name}": load_recipe(name) for name in arguments.recipes}
    shared = {"seeds": arguments.agents, "threads": arguments.threads, "device": arguments.device}
    works = {}
    for name, config in configs.items():
        for execution in ("auto", "eager"):
            own = from_dict({**shared, "execution": execution}, config)
            prepared = prepare_update(own, 17, 6)
            works[f"{name} {execution}"] = prepared.learner.learn
    rounds = Rounds(arguments.rounds, arguments.seconds)
    seconds = measure_in_turn(works, base.agent.policy_freq, rounds, prepared.device)
    return {
        name: {execution: seconds[f"{name} {execution}"] for execution in ("auto", "eager")}
        for name in configs
    }


def ratio(slow: list[float], fast: list[float]) -> float:
    """The median over rounds of the ratio within a round."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def main(arguments: Arguments) -> None:
    found = compare(arguments)
    print(f"{'variant':<14}{'ms':>9}{'time / TD3':>12}{'plain PyTorch / fast':>22}")
    for variant, seconds in found.items():
        fast, eager = seconds["auto"], seconds["eager"]
        figures = 1e3 * statistics.median(fast), ratio(fast, found[""]["auto"]), ratio(eager, fast)
        print("{:<14}{:>9.3f}{:>12.2f}{:>22.1f}".format(variant or "TD3", *figures))
    if arguments.out:
        facts = {"agents": arguments.agents, "threads": arguments.threads, "seconds": found}
        arguments.out.write_text(json.dumps(facts | describe_circumstances(), indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments))

"""A tiny plan of `python -m benchmarks paper`, and the command that asks for it."""

from pathlib import Path
from typing import Any

from benchmarks.td3_bench.plan import Plan, make_plan

RECIPE = """
[agent]
hidden_sizes = [8, 8]
batch_size = 8
[loop]
random_steps = 20
replay_size = 200
log_every = 20
[evaluation]
episodes = 2
"""


def make_tiny_plan(folder: Path, **changes: Any) -> Plan:
    recipe = folder / "tiny.toml"
    recipe.write_text(RECIPE)
    settings: dict[str, Any] = {
        "tasks": ("InvertedPendulum-v5", "Pendulum-v1"),
        "recipe": str(recipe),
        "seeds": 2,
        "steps": 200,
        "evaluation_every": 50,
        "checkpoint_every": 50,
        "device": "cpu",
        "runs": folder / "runs",
        "results": folder / "results" / "paper",
    }
    return make_plan(**settings | changes)


def command_of(plan: Plan) -> list[str]:
    """Return the words after `python -m benchmarks` that ask for this plan."""
    flags = {
        "--recipe": plan.recipe,
        "--seeds": plan.config.seeds,
        "--steps": plan.config.loop.steps,
        "--evaluation.every": plan.config.evaluation.every,
        "--checkpoint.every": plan.config.checkpoint.every,
        "--device": plan.config.device,
        "--runs": plan.runs,
        "--results": plan.results,
    }
    return ["paper", *plan.tasks, *(str(word) for pair in flags.items() for word in pair)]

"""td3 evaluate"""

import dataclasses
import functools
import json
import math
import shlex
import statistics
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

MOST_EPISODES = 1_000_000


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Play noise-free episodes with the best policy of each agent of a run.

    td3 evaluate runs/my-run --episodes 100

    td3 evaluate runs/my-run/policy/agent-0.safetensors --json

    td3 evaluate --pretrained HalfCheetah-v5 --episodes 100
    """

    folder: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RUN")] = None
    """Run folder, or a policy's .safetensors file."""
    pretrained: str = ""
    """Instead of a run: the policy that comes with td3 for this task, e.g. HalfCheetah-v5."""
    episodes: int = 10
    """Episodes per agent."""
    agent: int | None = None
    """Only this agent of the run."""
    which: Literal["best", "last"] = "best"
    """Policy with the best evaluation, or the last one."""
    seed: int = 1_000_000
    """Seed of the episodes: other ones than those that chose the best policy."""
    environment: str = ""
    """Task to play instead of the one in the policy file, e.g. my_package:MyEnv-v0. Needed if the
    task imports a Python module: a policy file alone never makes td3 import one."""
    json: bool = False
    """Print the figures as JSON."""


def run(arguments: Arguments) -> int:
    from td3.errors import UserError

    if not 1 <= arguments.episodes <= MOST_EPISODES:
        raise UserError(f"--episodes must be 1 to {MOST_EPISODES:,}, not {arguments.episodes:,}.")
    import torch

    from td3.policy.load import policies_of
    from td3.policy.pretrained import run_or_pretrained
    from td3.report.intervals import over_seeds

    source = run_or_pretrained(arguments.folder, arguments.pretrained)
    torch.set_num_threads(1)  # one observation at a time: more threads only wait for each other
    policies = policies_of(source, arguments.agent, arguments.which)
    command = f"td3 evaluate {shlex.quote(str(source))} --environment {{task}}"
    tasks = [policy.task_to_play(arguments.environment, command).id for policy in policies]
    rows = play(policies, tasks, arguments)
    outcome = {
        "environment": rows[0]["environment"],
        "seed": arguments.seed,
        **together(rows),
        "agents": rows,
        "settings": [
            {
                "settings": own[0]["settings"],
                "agents": len(own),
                **together(own),
                **over_seeds("mean_return", [row["mean_return"] for row in own]),
            }
            for own in by_settings(rows)
        ],
    }
    print(json.dumps(outcome) if arguments.json else table(outcome))
    return 0


def play(policies: list[Any], tasks: list[str], arguments: Arguments) -> list[dict[str, Any]]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    rows = []
    for policy, task in zip(policies, tasks, strict=True):
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
            bar = bars.add_task("Evaluating", total=arguments.episodes)
            advance = functools.partial(bars.advance, bar)
            found = policy.evaluate(
                arguments.episodes, arguments.seed, advance, arguments.environment
            )
        returns = found.returns.tolist()
        # What a policy earned in one task says nothing about another one.
        stated = policy.card.get("tested") if task == policy.environment.id else None
        rows.append(
            {
                "agent": policy.name,
                "environment": task,
                "step": policy.step,
                "settings": policy.card.get("settings") or {},
                "stated": compared(stated, returns),
                "mean_return": statistics.fmean(returns),
                "std_return": statistics.pstdev(returns),
                "mean_length": float(found.lengths.mean()),
                "returns": returns,
            }
        )
    return rows


def compared(stated: dict[str, Any] | None, returns: list[float]) -> dict[str, Any] | None:
    """What a policy is said to earn, and whether this agrees with it."""
    from td3.report.intervals import next_mean_interval

    keys = ("mean_return", "std_return", "episodes")
    if not stated or not all(isinstance(stated.get(key), int | float) for key in keys):
        return None
    known = stated["mean_return"], stated["std_return"], stated["episodes"]
    if known[2] < 2:
        return None
    between, mean = next_mean_interval(*known, len(returns)), statistics.fmean(returns)
    # Where all episodes are the same, only rounding may differ.
    nearly = any(math.isclose(mean, value, rel_tol=1e-6) for value in (known[0], *between))
    return {
        **stated,
        "expected_low": between[0],
        "expected_high": between[1],
        "reproduced": nearly or between[0] <= mean <= between[1],
    }


def together(rows: list[dict[str, Any]]) -> dict[str, Any]:
    returns = [value for row in rows for value in row["returns"]]
    return {
        "mean_return": statistics.fmean(returns),
        "std_return": statistics.pstdev(returns),
        "episodes": len(returns),
    }


def by_settings(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The agents of a grid that differ in nothing but their seed."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(json.dumps(row["settings"]), []).append(row)
    return list(groups.values())


def interval(own: dict[str, Any]) -> str:
    if own["agents"] == 1:
        return ""
    between = f"{own['mean_return_low']:.2f} to {own['mean_return_high']:.2f}"
    return f"mean of {own['agents']} seeds, 95 % interval {between}"


def table(outcome: dict[str, Any]) -> str:
    from td3.config import in_words

    def line(name: str, row: dict[str, Any], more: str) -> str:
        returns = f"{row['mean_return']:>10.2f} ± {row['std_return']:<9.2f}"
        return f"{name:<{width}} {returns} {more}  {in_words(row.get('settings', {}))}".rstrip()

    lines = []
    width = max(10, *(len(row["agent"]) for row in outcome["agents"]))
    for row in outcome["agents"]:
        when = "" if row["step"] is None else f", policy of step {row['step']:,}"
        lines.append(line(row["agent"], row, f"episodes of {row['mean_length']:.0f} steps{when}"))
    if len(lines) > len(outcome["settings"]):
        lines += [line("all", own, interval(own)) for own in outcome["settings"]]
    per_agent = outcome["episodes"] // len(outcome["agents"])
    for row in outcome["agents"]:
        if stated := row["stated"]:
            low, high = stated["expected_low"], stated["expected_high"]
            verdict = "agrees" if stated["reproduced"] else "does not agree"
            lines.append(
                line(
                    "stated",
                    stated,
                    f"over {stated['episodes']} other episodes; expected here "
                    f"(99 %): {low:.2f} to {high:.2f}: {verdict}",
                )
            )
    episodes = f"{per_agent} episode{'s' if per_agent > 1 else ''}"
    each = " each" if len(outcome["agents"]) > 1 else ""
    title = f"{outcome['environment']}, {episodes}{each}: mean return ± its deviation over episodes"
    return "\n".join([title, *lines])

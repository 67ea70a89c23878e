"""td3 evaluate"""

import dataclasses
import functools
import json
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

MOST_EPISODES = 1_000_000


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Run the best policy of each agent without exploration noise.

    td3 evaluate runs/my-run --episodes 100
    td3 evaluate runs/my-run/policy/agent-0.safetensors --json
    td3 evaluate --pretrained HalfCheetah-v5 --episodes 100
    """

    folder: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="RUN")] = None
    """Run folder, or the .safetensors file of a policy."""
    pretrained: str = ""
    """Instead of a run: the pretrained policy for this task, e.g. HalfCheetah-v5."""
    episodes: int = 10
    """Episodes per agent."""
    agent: int | None = None
    """Number of the agent; default: all."""
    which: Literal["best", "last"] = "best"
    """Policy with the best evaluation, or the last one."""
    seed: int = 1_000_000
    """Seed of the test episodes, distinct from those that selected the best policy."""
    variant: str = ""
    """Class of the policy's variant, module:Class. Only for policies with their own actor; td3
    imports no module that only a file names."""
    environment: str = ""
    """Task to play instead of the one in the policy file, e.g. my_package:MyEnv-v0. Needed if the
    task imports a Python module; td3 imports no module that only a file names."""
    json: bool = False
    """Print the numbers as JSON."""


def run(arguments: Arguments) -> int:
    from td3.errors import UserError

    if not 1 <= arguments.episodes <= MOST_EPISODES:
        raise UserError(
            f"--episodes must be between 1 and {MOST_EPISODES:,}, got {arguments.episodes:,}."
        )
    import torch

    from td3.cli.values import given_flags
    from td3.environments.output import output_to_stderr
    from td3.environments.watch import watch_command
    from td3.policy.load import policies_of
    from td3.policy.pretrained import run_or_pretrained
    from td3.report.policy_scores import summarize
    from td3.text import printable

    source = run_or_pretrained(arguments.folder, arguments.pretrained)
    torch.set_num_threads(1)  # batches of one observation gain nothing from more threads
    flags = given_flags(arguments, "folder", "pretrained", "environment")
    command = f"td3 evaluate {shlex.quote(str(source))} --environment {{task}}{flags}"
    with output_to_stderr(), watch_command():
        policies = policies_of(source, arguments.agent, arguments.which, arguments.variant or None)
        tasks = [policy.task_to_play(arguments.environment, command).id for policy in policies]
        rows = play(policies, tasks, arguments)
    outcome = {
        "environment": rows[0]["environment"],
        "seed": arguments.seed,
        **summarize(rows),
    }
    print(json.dumps(outcome) if arguments.json else printable(table(outcome)))
    return 0


def play(policies: list[Any], tasks: list[str], arguments: Arguments) -> list[dict[str, Any]]:
    """One row per policy: its returns and their statistics."""
    from rich.console import Console
    from rich.progress import Progress

    from td3.report.policy_scores import compare_with_published, score

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
        # A return in one task has no meaning in another one.
        stated = policy.card.get("tested") if task == policy.environment.id else None
        rows.append(
            {
                "agent": policy.name,
                "environment": task,
                "step": policy.step,
                "settings": policy.card.get("settings") or {},
                "stated": compare_with_published(stated, returns),
                **score(returns),
                "mean_length": float(found.lengths.mean()),
                **success_rate(found.successes),
                "returns": returns,
            }
        )
    return rows


def success_rate(successes: Any) -> dict[str, float]:
    """The share of episodes that succeeded, if the task reports it."""
    return {} if successes is None else {"success": float(successes.mean())}


def interval(own: dict[str, Any]) -> str:
    """The confidence interval over seeds; empty for one seed."""
    if own["agents"] == 1:
        return ""
    between = f"{own['mean_return_low']:.2f} to {own['mean_return_high']:.2f}"
    return f"mean of {own['agents']} seeds, 95 % interval {between}"


def table(outcome: dict[str, Any]) -> str:
    """One line per agent, per group of seeds, and per published score."""
    from td3.config import describe_settings

    agents = outcome["agents"]
    width = max(10, *(len(row["agent"]) for row in agents))

    def line(name: str, row: dict[str, Any], more: str) -> str:
        returns = f"{row['mean_return']:>10.2f} ± {row['std_return']:<9.2f}"
        settings = describe_settings(row.get("settings", {}))
        return f"{name:<{width}} {returns} {more}  {settings}".rstrip()

    lines = [line(row["agent"], row, describe_episodes(row)) for row in agents]
    if len(lines) > len(outcome["settings"]):
        lines += [line("all", own, interval(own)) for own in outcome["settings"]]
    published = [row["stated"] for row in agents if row["stated"]]
    lines += [line("published", own, verdict(own)) for own in published]
    count = outcome["episodes"] // len(agents)
    episodes = f"{count} episode{'s' if count > 1 else ''}{' each' if len(agents) > 1 else ''}"
    title = f"{outcome['environment']}, {episodes}: mean return ± standard deviation over episodes"
    return "\n".join([title, *lines])


def describe_episodes(row: dict[str, Any]) -> str:
    step = "" if row["step"] is None else f", policy of step {row['step']:,}"
    success = f", success {row['success']:.0%}" if "success" in row else ""
    return f"episodes of {row['mean_length']:.0f} steps{success}{step}"


def verdict(published: dict[str, Any]) -> str:
    """Whether the returns lie in the interval that the published score predicts."""
    low, high = published["expected_low"], published["expected_high"]
    answer = "reproduced" if published["reproduced"] else "not reproduced"
    expected = f"expected {low:.2f} to {high:.2f} (99 % interval)"
    return f"over {published['episodes']} other episodes; {answer}: {expected}"

"""td3 evaluate"""

import dataclasses
import functools
import json
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

MOST_EPISODES = 1_000_000
LARGE = 100  # returns from here on are shown with one decimal instead of two
Row = tuple[str, str, str, str]
"""Name, mean, standard deviation, more; or a text without a name."""


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


def table(outcome: dict[str, Any]) -> str:
    """The agents of each setting, all of its seeds together, and published scores."""
    from td3.config import describe_settings

    agents = outcome["agents"]
    count = outcome["episodes"] // len(agents)
    episodes = f"{count} episode{'s' if count > 1 else ''}{' each' if len(agents) > 1 else ''}"
    title = f"{outcome['environment']}, {episodes}: mean return ± standard deviation over episodes"
    digits = 1 if any(abs(row["mean_return"]) >= LARGE for row in agents) else 2
    rows: list[Row] = []
    for group in outcome["settings"]:
        own = [row for row in agents if row.get("settings", {}) == group["settings"]]
        if setting := describe_settings(group["settings"]):
            rows.append(("", setting, "", ""))
        rows += [numbers(row["agent"], row, describe_episodes(row), digits) for row in own]
        if len(own) > 1:
            rows.append(numbers("all", group, interval(group, digits), digits))
    for stated in filter(None, (row["stated"] for row in agents)):
        more = f"over {stated['episodes']} other episodes"
        rows += [numbers("published", stated, more, digits), ("", verdict(stated, digits), "", "")]
    return "\n".join([title, *aligned(rows)])


def numbers(name: str, row: dict[str, Any], more: str, digits: int) -> Row:
    return (name, f"{row['mean_return']:,.{digits}f}", f"{row['std_return']:,.{digits}f}", more)


def aligned(rows: list[Row]) -> list[str]:
    """The rows in columns; one without a name is a line of text."""
    own = [row for row in rows if row[0]]
    name, mean, std = (max(len(row[column]) for row in own) for column in range(3))
    return [
        f"{row[0]:<{name}}  {row[1]:>{mean}} ± {row[2]:<{std}}  {row[3]}".rstrip()
        if row[0]
        else row[1]
        for row in rows
    ]


def interval(own: dict[str, Any], digits: int = 1) -> str:
    """The confidence interval over seeds; empty for one seed."""
    if own["agents"] == 1:
        return ""
    low, high = (f"{own[f'mean_return_{end}']:,.{digits}f}" for end in ("low", "high"))
    return f"{own['agents']} seeds, 95 % interval {low} to {high}"


def describe_episodes(row: dict[str, Any]) -> str:
    step = "" if row["step"] is None else f"step {row['step']:,}, "
    success = f", success {row['success']:.0%}" if "success" in row else ""
    return f"{step}episodes of {row['mean_length']:,.0f} steps{success}"


def verdict(published: dict[str, Any], digits: int) -> str:
    """Whether the returns lie in the interval that the published score predicts."""
    low, high = (f"{published[f'expected_{end}']:,.{digits}f}" for end in ("low", "high"))
    answer = "reproduced" if published["reproduced"] else "not reproduced"
    return f"{answer}: expected {low} to {high} (99 % interval)"

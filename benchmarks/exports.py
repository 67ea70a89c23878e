"""Export pretrained policies to every format and run all self-tests: python -m benchmarks.exports

Each self-test compares 10,000 observations of the task with actions in double precision.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import tyro

import td3
from td3.bench.measure import describe_circumstances
from td3.exports.check import OBSERVATIONS, check_export
from td3.exports.export import WRITERS, make_export
from td3.policy.pretrained import names

RESULT = re.compile(
    r"passed: ([\d,]+) observations, largest error (\S+) of .* NaN refused, \w+ (\S+) us per action"
)


@dataclass(frozen=True)
class Arguments:
    """Export pretrained policies and run their self-tests."""

    tasks: tyro.conf.Positional[tuple[str, ...]] = ()
    """Default: all."""
    out: Path | None = None
    """Write the figures as JSON."""


def measure(task: str) -> dict[str, dict[str, float]]:
    """For each format: observations, largest error (share of the action range), microseconds."""
    made = make_export(td3.load_policy(pretrained=task), list(WRITERS), OBSERVATIONS)
    assert made.vectors.recorded
    found = {"float32": {"error": made.rounding}}
    for check in check_export(made):
        if check.passed is None:
            continue
        if not (passed := RESULT.match(check.text)):
            raise SystemExit(f"{task}, {check.name}: {check.text}")
        observations, error, microseconds = (
            float(text.replace(",", "")) for text in passed.groups()
        )
        found[check.name] = {
            "observations": observations,
            "error": error,
            "microseconds": microseconds,
        }
    return found


def main(arguments: Arguments) -> None:
    circumstances = describe_circumstances()
    found = {}
    for task in arguments.tasks or names():
        found[task] = measure(task)
        exports = {name: own for name, own in found[task].items() if name != "float32"}
        error = max(own["error"] for own in exports.values())
        times = ", ".join(f"{name} {own['microseconds']:g}" for name, own in exports.items())
        rounding = found[task]["float32"]["error"]
        print(
            f"{task}: largest error {error:.1e}, td3 itself {rounding:.1e}; us: {times}", flush=True
        )
    if arguments.out:
        table = {"policies": found, **circumstances}
        arguments.out.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Arguments))

"""Run the fault tests in their long form: python -m benchmarks.faults [ROW …]

Each row is a promise of docs/trust.md with the tests that show it. TD3_FAULTS=long makes them try
more cases. Prints one table. With --store, also writes the figures of these rows, with commit,
machine and date, into benchmarks/results/faults.json and the table into docs/trust.md.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from benchmarks.td3_bench.markdown import BEGIN, END
from td3.run.versions import commit, describe_machine
from td3.text import duration

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks" / "results" / "faults.json"
PAGE = ROOT / "docs" / "trust.md"


class Row(NamedTuple):
    """A promise, and the pytest arguments that select its tests."""

    promise: str
    tests: str


ROWS = {
    1: Row("SIGKILL at random moments", "tests/faults/test_kills.py"),
    2: Row(
        "kill of a worker, an evaluator, or before the first checkpoint",
        "tests/faults/test_resume.py tests/faults/test_background.py "
        "tests/faults/test_variant_runs.py -k kill",
    ),
    3: Row(
        "kill at every system call of a save, copy, keep, repair or way back",
        "tests/faults/test_system_calls.py tests/faults/test_moves.py -k kill",
    ),
    4: Row(
        "loss of unflushed data",
        "tests/faults/test_system_calls.py tests/faults/test_moves.py -k power",
    ),
    5: Row(
        "full disk, errors of every system call",
        "tests/faults/test_full_disk.py tests/faults/test_system_calls.py "
        "-k 'disk or EIO or ENOSPC'",
    ),
    6: Row(
        "damaged and lost files",
        "tests/faults/test_corruption.py tests/faults/test_lost_files.py "
        "tests/faults/test_random_damage.py tests/doctor/test_run_checks.py",
    ),
    7: Row(
        "two processes, moved, incomplete and read-only folders",
        "tests/run tests/faults/test_places.py tests/faults/test_folder.py",
    ),
    8: Row("signals", "tests/faults/test_signals.py"),
    10: Row(
        "resume in the middle of an episode; changed code of an environment",
        "tests/faults/test_resume.py tests/environments/test_simulator_state.py "
        "tests/environments/test_environment_source.py -k 'not kill and not gpu'",
    ),
    11: Row("NaN and infinity from an environment", "tests/faults/test_bad_numbers.py"),
    12: Row("divergence", "tests/faults/test_frozen.py"),
    13: Row("action spaces", "tests/environments/test_task.py -k action"),
    14: Row(
        "replay equals an oracle; steps equal transitions and updates",
        "tests/training/test_collector.py tests/training/test_loop.py -k 'replay_buffer or vector'",
    ),
    15: Row(
        "updates equal an independent reference",
        "tests/parity/test_reference.py tests/parity/test_update.py",
    ),
    16: Row("same seed, other seed", "tests/faults/test_resume.py -k seed"),
    17: Row(
        "fast paths execute what a class says",
        "tests/execution/test_own_updates.py tests/parity/test_modes.py",
    ),
    18: Row(
        "environments, workers and evaluators that fail, hang, exit or print",
        "tests/environments/workers tests/environments/test_watch.py "
        "tests/training/test_background_evaluation.py tests/faults/test_hostile_environments.py "
        "tests/faults/test_environment_output.py -k 'not parent'",
    ),
    19: Row(
        "no process outlives the trainer",
        "tests/environments/workers tests/training tests/faults/test_worker_runs.py "
        "-k 'parent or killed_run'",
    ),
    20: Row("soak", "tests/faults/test_soak.py"),
    21: Row("replay buffer larger than memory or disk", "tests/run/test_memory.py"),
    22: Row(
        "hostile files and links",
        "tests/faults/test_hostile_files.py tests/faults/test_own_files.py "
        "tests/tuning/test_hostile_searches.py",
    ),
    23: Row("nothing runs what it reads", "tests/test_source.py"),
    24: Row("configurations", "tests/config tests/cli"),
    25: Row("files of released versions", "tests/formats"),
    26: Row("local pages", "tests/test_serving.py"),
    27: Row("lost nodes, workers and drivers of a cluster", "tests/cluster/test_cluster_runs.py"),
}


def files_and_words(row: Row) -> tuple[list[str], str]:
    """The files with the tests of a row, and pytest's expression that selects among them."""
    words = shlex.split(row.tests)
    at = words.index("-k") if "-k" in words else len(words)
    return words[:at], " ".join(words[at + 1 :])


def tests_table() -> list[str]:
    """The tests of each row as lines of the Markdown table in docs/trust.md."""
    lines = ["| # | tests |", "| ---: | --- |"]
    for number, row in ROWS.items():
        files, words = files_and_words(row)
        names = ", ".join(f"`{file.removeprefix('tests/')}`" for file in files)
        lines.append(f"| {number} | {names}{f'; {words}' if words else ''} |")
    return lines


def run_row(row: Row) -> dict[str, Any]:
    """Run the tests of a row; return the figures of its line in the table."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = f"{sys.executable} -m pytest -q -p no:warnings --junitxml {report} {row.tests}"
        done = subprocess.run(
            ["sh", "-c", f"exec {command}"],
            cwd=ROOT,
            env={**os.environ, "TD3_FAULTS": "long"},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = round(time.monotonic() - began, 1)
        if not report.exists():
            sys.exit(f"{row.promise}: no test ran\n{done.stdout}{done.stderr}")
        figures = count_cases(ElementTree.parse(report).getroot())
    if figures["failures"]:
        print(done.stdout, file=sys.stderr)
    return {"promise": row.promise, **figures, "seconds": seconds}


def count_cases(report: ElementTree.Element) -> dict[str, Any]:
    """Cases and failures of a JUnit report.

    A test counts as one case unless it records the property `cases`. `note` is a figure to show.
    """
    cases = failures = 0
    notes = []
    for test in report.iter("testcase"):
        if test.find("skipped") is not None:
            continue
        properties = {p.attrib["name"]: p.attrib["value"] for p in test.iter("property")}
        cases += int(properties.get("cases", 1))
        failures += test.find("failure") is not None or test.find("error") is not None
        notes += [properties["note"]] if "note" in properties else []
    return {"cases": cases, "failures": failures, "note": "; ".join(notes)}


def table(rows: dict[str, dict[str, Any]]) -> list[str]:
    """The figures as lines of a Markdown table."""
    lines = ["| # | tested | cases | failures | time |", "| ---: | --- | ---: | ---: | ---: |"]
    for number, own in sorted(rows.items(), key=lambda item: int(item[0])):
        note = f" ({own['note']})" if own["note"] else ""
        figures = f"{own['cases']:,} | {own['failures']} | {duration(own['seconds'])}"
        lines.append(f"| {number} | {own['promise']}{note} | {figures} |")
    cases, failures = (sum(own[name] for own in rows.values()) for name in ("cases", "failures"))
    seconds = sum(own["seconds"] for own in rows.values())
    return [*lines, f"| | all | {cases:,} | {failures} | {duration(seconds)} |"]


def store(found: dict[str, dict[str, Any]]) -> None:
    """Merge these rows into the stored ones and write the table into the page."""
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {"rows": {}}
    origin = {"commit": commit() or "", "date": time.strftime("%Y-%m-%d")}
    rows = stored["rows"] | {number: own | origin for number, own in found.items()}
    rows = {str(number): rows[str(number)] for number in ROWS if str(number) in rows}
    stored = {"machine": describe_machine(), "rows": rows}
    STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    text = "\n".join(page_lines(stored))
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def page_lines(stored: dict[str, Any]) -> list[str]:
    """What docs/trust.md has between its marks."""
    machine, rows = stored["machine"], stored["rows"].values()
    dates = sorted({own["date"] for own in rows})
    commits = sorted({own["commit"][:10] for own in rows})
    when = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    where = f"{machine['processor']}, {machine['cores']} cores, {machine['system']}"
    return ["", f"{when}, commit {', '.join(commits)}, {where}.", "", *table(stored["rows"]), ""]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, choices=[*ROWS, []], metavar="ROW")
    parser.add_argument("--store", action="store_true", help="keep the figures; write the page")
    arguments = parser.parse_args(words)
    found = {}
    for number in arguments.rows or ROWS:
        found[str(number)] = run_row(ROWS[number])
        print(f"{number:>3} {found[str(number)]}", file=sys.stderr, flush=True)
        if arguments.store:
            store({str(number): found[str(number)]})
    print("\n".join(table(found)))
    return int(any(own["failures"] for own in found.values()))


if __name__ == "__main__":
    sys.exit(main())

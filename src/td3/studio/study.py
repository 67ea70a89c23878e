"""A search of `td3 tune` as a table of trials, from its journal while it goes on.

Optuna itself would repair the journal, that is, write to it; the studio only reads.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

from td3.config import read_toml
from td3.errors import UserError
from td3.files import read_regular
from td3.report.summary import finite, is_whole
from td3.studio.detail import plain
from td3.studio.tail import parse_lines
from td3.untrusted import Malformed, parse_json

LONGEST = 2**26  # bytes of a journal
MOST_TRIALS = 20_000
CREATE, PARAMETER, STATE, REPORT, ATTRIBUTE = 4, 5, 6, 7, 8  # operations of Optuna's journal
STATES = {0: "running", 1: "complete", 2: "pruned", 3: "failed", 4: "waiting"}
Trial = dict[str, Any]


def describe_study(folder: Path, key: str) -> dict[str, Any]:
    """The plan and the trials of a search, as plain JSON values."""
    page: dict[str, Any] = {"id": key, "folder": str(folder), "problem": "", "trials": []}
    try:
        tables = read_toml(folder / "tune.toml")
        own, settings = tables.get("tune", {}), tables.get("settings", {})
        environment = settings.get("environment", {}) if isinstance(settings, dict) else {}
        page["task"] = str(environment.get("id", ""))
        page["plan"] = {k: plain(v) for k, v in own.items() if isinstance(v, int | float | str)}
        page["trials"] = read_trials(folder)
        page["has_report"] = (folder / "report.html").is_file()
    except (UserError, OSError, ValueError, AttributeError) as error:
        page["problem"] = str(error).replace(f"{folder}/", "")
    return page


def read_trials(folder: Path) -> list[Trial]:
    """From the journal; from trials.csv if the study is in a database."""
    journal = folder / "study.journal"
    if journal.is_file() and not journal.is_symlink():
        return from_journal(read_regular(journal, LONGEST))
    file = folder / "trials.csv"
    if file.is_file() and not file.is_symlink():
        return from_csv(read_regular(file, LONGEST).decode(errors="replace"))
    return []


def from_journal(data: bytes) -> list[Trial]:
    records, _ = parse_lines(data[: data.rfind(b"\n") + 1].split(b"\n"))
    trials: list[Trial] = []
    for record in records:
        code, number = record.get("op_code"), record.get("trial_id")
        if code == CREATE and len(trials) < MOST_TRIALS:
            trials.append({"number": len(trials), "state": "running", "settings": {}, "means": {}})
        elif is_whole(number) and isinstance(number, int) and number < len(trials):
            take(trials[number], code, record)
    for trial in trials:
        trial["steps"] = max([trial.pop("age", 0), *trial["means"]])
        value, means = trial.pop("value", None), list(trial["means"].values())
        trial["value"] = value if value is not None else (means[-1] if means else None)
        trial["means"] = [[step, mean] for step, mean in sorted(trial["means"].items())]
    return trials


def take(trial: Trial, code: object, record: dict[str, Any]) -> None:
    """Apply one operation to a trial."""
    value = record.get("param_value_internal")
    if code == PARAMETER and finite(value) is not None:
        name, decoded = decode(str(record.get("param_name"))[:100], value, record)
        trial["settings"][name] = decoded
    elif code == STATE:
        trial["state"] = STATES.get(record.get("state", -1), "unknown")
        values = record.get("values")
        if isinstance(values, list) and values:
            trial["value"] = finite(values[0])
    elif code == REPORT and is_whole(record.get("step")):
        mean = finite(record.get("intermediate_value"))
        if mean is not None:
            trial["means"][record["step"]] = mean
    elif code == ATTRIBUTE and isinstance(record.get("user_attr"), dict):
        end = record["user_attr"].get("end")
        if isinstance(end, dict) and is_whole(end.get("age")):
            trial["age"] = end["age"]
            trial["state"] = str(end.get("reason"))[:20]


def decode(name: str, value: Any, record: dict[str, Any]) -> tuple[str, Any]:
    """A parameter of the study as a setting and its value."""
    try:
        distribution = parse_json(str(record.get("distribution")).encode())
        choices = distribution["attributes"].get("choices")
        if choices:
            return name, str(choices[int(value)])
    except (Malformed, KeyError, TypeError, IndexError, AttributeError, ValueError):
        pass
    if name.startswith("1 - "):
        return name.removeprefix("1 - "), 1 - value
    return name, value


def from_csv(text: str) -> list[Trial]:
    rows = csv.DictReader(io.StringIO(text))
    found: list[Trial] = []
    for row in rows:
        if len(found) >= MOST_TRIALS:
            break
        fixed = {k: v for k, v in row.items() if isinstance(k, str) and isinstance(v, str)}
        means = [
            [int(k.removeprefix("return at ")), number]
            for k, v in fixed.items()
            if k.removeprefix("return at ").isdecimal() and (number := as_number(v)) is not None
        ]
        names = ("trial", "state", "value", "steps")
        settings = {
            k: v if (number := as_number(v)) is None else number
            for k, v in fixed.items()
            if k not in names and not k.startswith("return at ") and v
        }
        value = as_number(fixed.get("value", ""))
        found.append(
            {
                "number": len(found),
                "state": fixed.get("state", ""),
                "settings": settings,
                "steps": int(as_number(fixed.get("steps", "")) or 0),
                "value": value if value is not None else (means[-1][1] if means else None),
                "means": means,
            }
        )
    return found


def as_number(text: str) -> float | None:
    try:
        return finite(float(text))
    except ValueError:
        return None


def dump(value: Any) -> bytes:
    """Compact JSON; raises ValueError for NaN, which browsers cannot read."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()

"""The journal of a search: Optuna's log of a study, one JSON object per line.

It may be damaged, or come from another person, so every record is checked before Optuna reads it.
"""

import os
from pathlib import Path

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from td3.errors import UserError, first_line
from td3.files import TAIL, bounded_lines, check_file, open_regular
from td3.text import shown
from td3.untrusted import (
    Malformed,
    Schema,
    anything,
    integer,
    items,
    mapping,
    nullable,
    number,
    parse_json,
    table,
    text,
)

JOURNAL = "study.journal"
LOCK = f"{JOURNAL}.lock"
LONGEST = 2**28  # bytes; a trial needs about 3,000
MORE = 1000  # trials that the user may have added to the study
CREATE_TRIAL = 4

NUMBER = nullable(number)
VALUES = nullable(items(number, 1))
STUDY, TRIAL = {"study_id": integer()}, {"trial_id": integer()}
DIGITS = text("[0-9]{1,18}", "a number of digits")
PLACE = table({"owner": text(), "population": integer(), "slot": integer(), "began": integer()})
END = table({"age": integer(), "reason": text("complete|pruned|diverged", "a reason")})
OWN = table({}, {"place": PLACE, "end": END, "returns": mapping(mapping(number, DIGITS), DIGITS)})
"""The attributes of a trial that td3 writes."""

RECORDS: list[Schema] = [
    table({"study_name": text(), "directions": items(integer(2, 2), 1)}),  # 2: maximize
    table(STUDY),
    table({**STUDY, "user_attr": mapping()}),
    table({**STUDY, "system_attr": mapping()}),
    table(
        STUDY,
        {
            "state": integer(0, 4),
            "value": NUMBER,
            "values": VALUES,
            "params": mapping(number),
            "distributions": mapping(text()),
            "user_attrs": OWN,
            "system_attrs": mapping(),
            "intermediate_values": mapping(NUMBER, DIGITS),
        },
    ),
    table({**TRIAL, "param_name": text(), "param_value_internal": number, "distribution": text()}),
    table({**TRIAL, "state": integer(0, 4), "values": VALUES}),
    table({**TRIAL, "step": integer(), "intermediate_value": NUMBER}),
    table({**TRIAL, "user_attr": OWN}),
    table({**TRIAL, "system_attr": mapping()}),
    anything,
]
"""The content of each kind of record, by Optuna's number of it."""
RECORD = table({"op_code": integer(0, len(RECORDS) - 1), "worker_id": text()})


def open_journal(folder: Path, trials: int) -> JournalStorage:
    """The journal in the folder of a search that this process has locked.

    Removes what a killed process left: Optuna's lock and half a line.

    Raises:
        UserError: The journal is damaged, or has many more trials than these.
    """
    path, lock = folder / JOURNAL, folder / LOCK
    if lock.is_symlink():  # as Optuna makes it
        lock.unlink()
    check_file(lock)
    lock.unlink(missing_ok=True)
    check_file(path)
    if path.exists():
        check_journal(path, trials + MORE)
    try:
        return JournalStorage(JournalFileBackend(str(path)))
    except (OSError, MemoryError):
        raise
    except Exception as error:  # Optuna has no class of its own for it
        reason = f"Optuna cannot read it ({type(error).__name__}: {shown(first_line(error))})"
        raise damaged(path, reason) from error


def check_journal(path: Path, most_trials: int) -> None:
    """Check every record, and remove half a line at the end. Raises UserError."""
    with open(path, "rb+", opener=lambda name, flags: open_regular(name, os.O_RDWR)) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LONGEST:
            raise damaged(path, f"it has {size:,} bytes, more than {LONGEST:,}")
        trials, line, whole = 0, 1, 0
        try:
            for record in bounded_lines(file):
                if not record.endswith(b"\n"):
                    file.truncate(whole)
                    return
                trials += check_record(record) == CREATE_TRIAL
                if trials > most_trials:
                    raise Malformed(f"there are more than {most_trials:,} trials")
                line, whole = line + 1, whole + len(record)
        except ValueError as error:
            raise damaged(path, f"line {line:,}: {error}") from error


def check_record(line: bytes) -> int:
    """The kind of a record. Raises Malformed."""
    record = parse_json(line, TAIL)
    RECORD(record, "the record")
    kind = int(record["op_code"])
    RECORDS[kind](record, "the record")
    return kind


def damaged(path: Path, reason: str) -> UserError:
    return UserError(
        f"{path} is damaged: {reason}. Restore it from a copy, or delete the damaged line and all "
        "after it: the search then repeats what they recorded, and reports what it cannot repeat."
    )

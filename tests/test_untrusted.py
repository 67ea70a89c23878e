"""JSON that is damaged or hostile is refused, quickly and with the place of the error."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from td3.files import read_regular
from td3.untrusted import (
    Malformed,
    Schema,
    integer,
    items,
    mapping,
    nullable,
    number,
    parse_json,
    table,
    text,
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe\xff", "not JSON"),
        (b"[" * 10_000, "deeper than 64"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "deeper than 64"),
        (b"9" * 41, "41 digits"),
        (b"-" + b"9" * 5000, "5,001 digits"),
        (b"1" * 200, "more than 100"),
    ],
)
def test_parse_json_of_bad_text_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(Malformed, match=message):
        parse_json(data, 100 if message == "more than 100" else 10**6)


def test_parse_json_ignores_brackets_in_strings() -> None:
    assert parse_json(b'{"a": "[[\\"{", "b": [1]}') == {"a": '[["{', "b": [1]}
    assert parse_json(b'"' + b"[" * 1000 + b'"') == "[" * 1000


def test_parse_json_of_a_megabyte_of_brackets_is_refused_quickly() -> None:
    began = time.process_time()
    with pytest.raises(Malformed):
        parse_json(b"[]" * 2**19 + b'"' * 2**19)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (integer(), 0, [-1, 1.0, True, None, "1", 2**63]),
        (integer(2, 3), 3, [1, 4]),
        (number, -1.5, [True, float("nan"), float("inf"), "1", None]),
        (text("[a-z]+"), "abc", ["", "a1", "a\n", 3]),
        (nullable(number), None, ["a"]),
        (items(integer(), 2), [1, 2], [[1], [1, "2"], "12", None, {}]),
        (mapping(integer()), {"a": 1}, [[], {"a": "1"}]),
        (table({"a": integer()}, {"b": number}), {"a": 1, "c": []}, [{}, {"a": 1, "b": "x"}, []]),
    ],
)
def test_schema_accepts_good_and_refuses_bad_values(
    schema: Schema, good: Any, bad: list[Any]
) -> None:
    schema(good, "it")
    for value in bad:
        with pytest.raises(Malformed, match=r"^it"):
            schema(value, "it")


def test_message_names_the_place_and_shortens_the_value() -> None:
    schema = table({"best": items(number)})
    with pytest.raises(Malformed) as caught:
        schema({"best": [1, "x" * 10_000]}, "facts")
    assert str(caught.value).startswith("facts.best[1] must be a finite number, got 'xxx")
    assert len(str(caught.value)) < 100


def test_read_regular_refuses_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"12345")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, message in {
        "fifo": "not a regular file",
        "folder": "not a regular file",
        "zero": "not a regular file",
        "large": "5 bytes, more than 4",
        "absent": "No such file",
    }.items():
        with pytest.raises(OSError, match=message):
            read_regular(tmp_path / name, 4)
    assert read_regular(tmp_path / "large", 5) == b"12345"

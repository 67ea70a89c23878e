"""Numbers as short text."""

import pytest

from td3.text import count, duration, number, parse_duration, printable


def test_count_adds_plural_unless_one() -> None:
    assert [count(n, "seed") for n in (0, 1, 1000)] == ["0 seeds", "1 seed", "1,000 seeds"]


@pytest.mark.parametrize(
    ("value", "three", "four"),
    [
        (0.012345, "0.0123", "0.01235"),
        (999.7, "1,000", "999.7"),
        (-1234.5, "-1,234", "-1,234"),
        (1.2345e12, "1.23e+12", "1.234e+12"),
    ],
)
def test_number_keeps_significant_digits(value: float, three: str, four: str) -> None:
    assert (number(value), number(value, 4)) == (three, four)


def test_duration_shows_two_largest_units() -> None:
    assert [duration(s) for s in (0.4, 127, 11_100)] == ["0 s", "2 min 7 s", "3 h 5 min"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1d 2H", 93_600),
        ("0.5s", 0.5),
        ("", None),
        ("0s", None),
        ("90", None),
        ("30m1h", None),
        ("2 hours", None),
        ("-1h", None),
    ],
)
def test_parse_duration_reads_units_from_large_to_small(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


def test_printable_escapes_what_could_control_a_terminal() -> None:
    assert printable("\x1b]0;title\x07 \x9b2J\r\u202eevil") == (
        "\\x1b]0;title\\x07 \\x9b2J\\r\\u202eevil"
    )
    assert printable("± 95 % → ok\n\tnext") == "± 95 % → ok\n\tnext"

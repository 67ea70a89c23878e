"""The runner of the fault tests: its rows select tests, and it counts their cases."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import faults

REPORT = """
<testsuites><testsuite>
<testcase name="a"><properties><property name="cases" value="40"/></properties></testcase>
<testcase name="b"><failure message="no">…</failure></testcase>
<testcase name="c"><skipped/></testcase>
<testcase name="d"><properties><property name="note" value="60 min"/></properties></testcase>
</testsuite></testsuites>
"""


def test_cases_are_tests_or_what_a_test_records() -> None:
    found = faults.count_cases(ElementTree.fromstring(REPORT))
    assert found == {"cases": 42, "failures": 1, "note": "60 min"}


@pytest.mark.parametrize("number", faults.ROWS)
def test_row_names_tests_that_exist(number: int) -> None:
    files, words = faults.files_and_words(faults.ROWS[number])
    paths = [faults.ROOT / file for file in files]
    assert paths
    assert all(path.exists() for path in paths)
    text = "".join(
        file.read_text() for path in paths for file in (path, *path.rglob("*.py")) if file.is_file()
    )
    assert [word for word in selecting(words) if word not in text] == []


def selecting(words: str) -> list[str]:
    """The words of an expression of pytest's option -k, without its operators."""
    return [word for word in re.findall(r"\w+", words) if word not in ("and", "not", "or")]


def test_trust_page_has_the_tests_of_each_promise() -> None:
    page = faults.PAGE.read_text(encoding="utf-8")
    assert "\n".join(["", *faults.tests_table(), ""]) in page
    promised = re.findall(r"^\| ([\d–]+) \|", page.partition("## Tests of each promise")[0], re.M)
    numbers = [int(number) for own in promised for number in own.split("–")]
    assert numbers == list(faults.ROWS)


def test_every_fault_test_is_in_a_row() -> None:
    selected = " ".join(row.tests for row in faults.ROWS.values())
    files = (faults.ROOT / "tests/faults").glob("test_*.py")
    assert [file.name for file in files if f"tests/faults/{file.name}" not in selected] == []


def test_store_keeps_other_rows_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "STORED", tmp_path / "faults.json")
    monkeypatch.setattr(faults, "PAGE", tmp_path / "trust.md")
    faults.PAGE.write_text("before\n<!-- results -->old<!-- /results -->\nafter\n")
    own = {"promise": "p", "cases": 1200, "failures": 0, "note": "", "seconds": 70.0}
    faults.store({"8": own})
    faults.store({"1": own})
    assert list(json.loads(faults.STORED.read_text())["rows"]) == ["1", "8"]
    page = faults.PAGE.read_text()
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert "| 1 | p | 1,200 | 0 | 1 min 10 s |\n| 8 |" in page
    assert "| | all | 2,400 | 0 | 2 min 20 s |" in page

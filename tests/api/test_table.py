"""Tables of plain columns."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from td3.api.table import Table
from td3.errors import UserError

ROWS = [
    {"step": 0, "agent": 0, "mean_return": -1.5, "returns": [-1.0, -2.0], "best": True},
    {"step": 0, "agent": 1, "mean_return": 2.0, "returns": [1.0, 3.0], "best": False},
    {"step": 1000, "agent": 0, "mean_return": 30.25, "returns": [30.0, 30.5], "loss": 0.125},
]


def test_table_gives_columns_as_arrays() -> None:
    table = Table(ROWS)
    assert table.columns == ["step", "agent", "mean_return", "returns", "best", "loss"]
    assert len(table) == 3
    assert (table["step"].dtype, table["step"].tolist()) == (np.int64, [0, 0, 1000])
    assert table["mean_return"].max() == 30.25
    assert table["returns"].shape == (3, 2)
    np.testing.assert_array_equal(table["loss"], [np.nan, np.nan, 0.125])


def test_table_with_lists_of_unequal_lengths_keeps_the_lists() -> None:
    column = Table([{"returns": [1.0]}, {"returns": [1.0, 2.0]}, {}])["returns"]
    assert column.tolist() == [[1.0], [1.0, 2.0], None]


def test_table_iterates_over_rows() -> None:
    table = Table(ROWS)
    assert [row["step"] for row in table] == [0, 0, 1000]
    assert table.row(-1)["loss"] == 0.125
    assert next(iter(table))["loss"] is None


def test_table_where_keeps_matching_rows() -> None:
    table = Table(ROWS)
    assert table.where(agent=0)["step"].tolist() == [0, 1000]
    assert table.where(agent=0, step=0)["mean_return"].tolist() == [-1.5]
    empty = table.where(agent=7)
    assert (len(empty), empty.columns, len(empty["step"])) == (0, table.columns, 0)


@pytest.mark.parametrize("use", [lambda t: t["mean_retrun"], lambda t: t.where(mean_retrun=1)])
def test_table_with_unknown_column_suggests_one(use: object) -> None:
    with pytest.raises(KeyError, match=r"no column 'mean_retrun'\. Did you mean 'mean_return'"):
        use(Table(ROWS))  # type: ignore[operator]


def test_table_repr_is_short() -> None:
    assert repr(Table([])) == "Table(no rows)"
    assert repr(Table(ROWS)).splitlines() == [
        " step  agent  mean_return     returns   best   loss",
        "    0      0         -1.5  [2 values]   True",
        "    0      1            2  [2 values]  False",
        "1,000      0        30.25  [2 values]         0.125",
    ]
    long = repr(Table([{"step": step} for step in range(100)])).splitlines()
    assert [line.strip() for line in long] == [
        *("step", "0", "1", "2", "3", "4", "…", "95", "96", "97", "98", "99", "(100 rows)")
    ]


def test_table_html_is_escaped() -> None:
    page = Table([{"<b>": "<script>alert(1)</script>"}])._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_table_to_pandas_without_pandas_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="to_pandas needs pandas: pip install pandas"):
        Table(ROWS).to_pandas()


def test_table_to_pandas_passes_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    frame = Table(ROWS).to_pandas()
    assert frame["step"] == [0, 0, 1000]
    assert frame["loss"] == [None, None, 0.125]

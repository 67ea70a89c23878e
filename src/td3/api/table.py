"""A table of plain columns, without pandas."""

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from td3.errors import UserError, nearest
from td3.text import number

SHOWN = 5  # rows at each end of a long table


class Table:
    """Rows with the same columns; missing values are None, and NaN in arrays.

    `table["step"]` is a column as a NumPy array, `len(table)` the number of rows, and iteration
    gives each row as a dictionary.

    Args:
        rows: The rows. A column exists if one row has it.

    Example:
        table = Table([{"step": 0, "mean_return": -1.5}, {"step": 100, "mean_return": 2.0}])
        table["mean_return"].max()
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        names = dict.fromkeys(name for row in rows for name in row)
        self._columns = {name: [row.get(name) for row in rows] for name in names}
        self._length = len(rows)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self.row(index) for index in range(len(self)))

    def __getitem__(self, column: str) -> NDArray[Any]:
        """A column as an array; one of lists with equal lengths has two axes."""
        if column not in self._columns:
            known = ", ".join(self.columns) or "none"
            hint = nearest(str(column), self.columns)
            raise KeyError(f"no column {column!r}.{hint} Columns: {known}")
        values = self._columns[column]
        if any(isinstance(value, list) for value in values):
            if len({len(value) if isinstance(value, list) else None for value in values}) == 1:
                return np.array(values)
            ragged = np.empty(len(values), dtype=object)
            ragged[:] = values
            return ragged
        if any(value is None for value in values):
            if all(value is None or isinstance(value, int | float) for value in values):
                return np.array([np.nan if value is None else value for value in values])
            return np.array(values, dtype=object)
        return np.array(values)

    def row(self, index: int) -> dict[str, Any]:
        """One row; -1 is the last."""
        return {name: values[index] for name, values in self._columns.items()}

    def where(self, **values: Any) -> "Table":
        """The rows with these values, for example `table.where(agent=1)`."""
        for column in values:
            self[column]  # raises KeyError with a hint
        rows = [row for row in self if all(row[name] == own for name, own in values.items())]
        found = Table(rows)
        found._columns = {name: found._columns.get(name, []) for name in self._columns}
        return found

    def to_pandas(self) -> Any:
        """A pandas DataFrame. Raises UserError if pandas is not installed."""
        try:
            import pandas
        except ImportError as error:
            raise UserError(
                "to_pandas needs pandas: pip install pandas; without it, table['step'] is a "
                "NumPy array."
            ) from error
        return pandas.DataFrame(self._columns)

    def __repr__(self) -> str:
        if not len(self):
            return "Table(no rows)"
        cells = [self.columns, *self._shown()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)).rstrip() for row in cells]
        return "\n".join([*lines, *([f"({len(self):,} rows)"] if self._is_long else [])])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
            for row in self._shown()
        )
        names = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        note = f"<p>{len(self):,} rows</p>" if self._is_long or not len(self) else ""
        return f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>{note}"

    @property
    def _is_long(self) -> bool:
        return len(self) > 2 * SHOWN + 1

    def _shown(self) -> list[list[str]]:
        """The cells of the first and the last rows, and of a row of dots between them."""
        rows = [[cell_text(value) for value in row.values()] for row in self]
        if not self._is_long:
            return rows
        return [*rows[:SHOWN], ["…"] * len(self.columns), *rows[-SHOWN:]]


def cell_text(value: Any) -> str:
    """A value as short text."""
    match value:
        case None:
            return ""
        case bool():
            return str(value)
        case float():
            return number(value, 4)
        case int():
            return f"{value:,}"
        case list():
            return f"[{len(value)} values]"
    return " ".join(str(value).split())

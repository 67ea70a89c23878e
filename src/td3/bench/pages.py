"""Pages whose tables a command makes and whose words people write.

The tables stand between two marks; what is written outside the marks is kept.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from td3.errors import UserError

BEGIN = "<!-- made by 'td3 bench report' from benchmarks/results; change those, not this -->"
END = "<!-- end of what 'td3 bench report' made -->"


def renew(page: Path, title: str, made: str) -> None:
    """Put new tables into the page, or make it."""
    fresh = f"# {title}\n\n{BEGIN}\n{END}\n"
    text = page.read_text(encoding="utf-8") if page.is_file() else fresh
    page.parent.mkdir(parents=True, exist_ok=True)
    try:
        page.write_text(renewed(text, made), encoding="utf-8")
    except UserError as error:
        raise UserError(f"{page}: {error}") from error


def renewed(text: str, made: str) -> str:
    """The page with new tables and the old words."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UserError(f"the page has lost its marks; put back the lines {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"

    return "\n".join(line(cells) for cells in [header, ["---"] * len(header), *rows])

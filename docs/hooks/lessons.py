"""Pages of lessons: stored outputs under their Python blocks, equations as SVG, a table of all.

`python -m benchmarks.lessons` runs the lessons and stores what they show in docs/lessons/outputs.
"""

import html
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

FOLDER = Path(__file__).parents[1] / "lessons"
PYTHON = re.compile(r"^```python\n.*?^```$", re.MULTILINE | re.DOTALL)
EQUATION = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: "Page", **_: Any) -> str:
    """Complete the page of a lesson; MkDocs calls this."""
    path = Path(page.file.src_path)
    if path.parent.name != "lessons":
        return markdown
    if path.stem == "index":
        return markdown.replace("{{ lessons }}", table())
    return EQUATION.sub(lambda found: equation(found[1]), with_outputs(markdown, path.stem))


def with_outputs(markdown: str, stem: str) -> str:
    """The page with the stored text and figures of each Python block below it."""
    numbers = iter(range(1, 1000))
    return PYTHON.sub(lambda found: found[0] + output(stem, next(numbers)), markdown)


def output(stem: str, number: int) -> str:
    """What one Python block showed."""
    folder, shown = FOLDER / "outputs" / stem, ""
    if (text := folder / f"{number}.txt").exists():
        shown += f'\n\n```text title="Output"\n{text.read_text(encoding="utf-8").rstrip()}\n```'
    for figure in sorted(folder.glob(f"{number}-*.png")):
        shown += f"\n\n![Figure made by the code above](outputs/{stem}/{figure.name})"
    return shown


def equation(formula: str) -> str:
    """A formula as SVG in the colour of the text; nothing is loaded from another server."""
    from matplotlib.figure import Figure

    file, figure = io.StringIO(), Figure()
    figure.text(0, 0, f"${formula.strip()}$", fontsize=15, math_fontfamily="cm")
    figure.savefig(file, format="svg", transparent=True, bbox_inches="tight", pad_inches=0.03)
    drawing = file.getvalue()
    drawing = drawing[drawing.index("<svg") :].replace("<g ", '<g fill="currentColor" ', 1)
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    label = html.escape(formula.strip())
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return f'<div class="equation">{" ".join(drawing.split())}</div>'


def table() -> str:
    """All lessons: minutes for a student, time that the solved notebook takes, and when."""
    rows = [
        "| lesson | you need | runs in | processor time | measured at |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    total = busy = 0.0
    for path in sorted(FOLDER.glob("[0-9][0-9]-*.md")):
        text = path.read_text(encoding="utf-8")
        minutes, title = re.findall(r"^(?:minutes: |# )(.+)$", text, re.MULTILINE)[:2]
        record = json.loads((FOLDER / "outputs" / path.stem / "record.json").read_text("utf-8"))
        seconds, cpu = record["seconds"]["solved"], record["cpu_seconds"]["solved"]
        total, busy = total + seconds, busy + cpu
        times = f"{minutes} min | {seconds:.0f} s | {cpu:.0f} s"
        rows.append(f"| [{title}]({path.name}) | {times} | {record['commit']} |")
    return "\n".join([*rows, f"| together | | {total / 60:.1f} min | {busy / 60:.1f} min | |"])

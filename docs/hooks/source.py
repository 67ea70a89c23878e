"""Put the source code itself into pages, so that no page holds a copy that grows old.

A line `{{ step 7 }}` becomes the lines of step 7 in `src/td3/algorithm`. A line
`{{ source algorithm/networks.py Actor.forward }}` becomes that function.
"""

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src" / "td3"
STEP = re.compile(r"^\{\{ step (\d+) \}\}$", re.MULTILINE)
FUNCTION = re.compile(r"^\{\{ source (\S+) (\S+) \}\}$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the placeholders of one page; MkDocs calls this."""
    markdown = STEP.sub(lambda found: code_block(*step(int(found[1]))), markdown)
    return FUNCTION.sub(lambda found: code_block(*function(found[1], found[2])), markdown)


def step(number: int) -> tuple[Path, str]:
    """The file and the lines of one of the steps 4 to 15, from its comment to a blank line."""
    for path in sorted((SOURCE / "algorithm").glob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for start, line in enumerate(lines):
            if line.lstrip().startswith(f"# Step {number}:"):
                end = next(i for i, own in enumerate([*lines, ""]) if i > start and not own.strip())
                return path, textwrap.dedent("\n".join(lines[start:end]))
    raise LookupError(f"no comment '# Step {number}:' in {SOURCE / 'algorithm'}")


def function(file: str, name: str) -> tuple[Path, str]:
    """The file and the source of a class or function by its dotted name."""
    path = SOURCE / file
    text = path.read_text(encoding="utf-8")
    node: Any = ast.parse(text)
    for part in name.split("."):
        node = next((own for own in node.body if getattr(own, "name", None) == part), None)
        if node is None:
            raise LookupError(f"no {name} in {path}")
    lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
    return path, textwrap.dedent("\n".join(lines))


def code_block(path: Path, code: str) -> str:
    return f'```python title="{path.relative_to(SOURCE.parent)}"\n{code}\n```'

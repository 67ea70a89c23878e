"""Show the code of td3 itself, so that no lesson and no page holds a copy that grows old."""

import ast
import sys
import textwrap
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1]


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


def show(what: int | str, name: str = "") -> Any:
    """Show code of td3 in a notebook, or print it elsewhere.

    Args:
        what: The number of a step from 4 to 15, or a file such as `algorithm/networks.py`.
        name: A class or function in that file, e.g. `Actor.forward`.
    """
    path, code = step(what) if isinstance(what, int) else function(what, name)
    code = f"# {path.relative_to(SOURCE.parent).as_posix()}\n{code}"
    if not in_notebook():
        print(code)
        return None
    from IPython import display

    return display.Code(code, language="python")


def in_notebook() -> bool:
    """Whether IPython runs this code."""
    main = sys.modules.get("IPython")
    return main is not None and main.get_ipython() is not None

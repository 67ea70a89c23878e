"""Put the source code itself into pages, so that no page holds a copy that grows old.

A line `{{ step 7 }}` becomes the lines of step 7 in `src/td3/algorithm`. A line
`{{ source algorithm/networks.py Actor.forward }}` becomes that function.
"""

import re
from pathlib import Path
from typing import Any

from td3.lessons.source import SOURCE, function, step

STEP = re.compile(r"^\{\{ step (\d+) \}\}$", re.MULTILINE)
FUNCTION = re.compile(r"^\{\{ source (\S+) (\S+) \}\}$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the placeholders of one page; MkDocs calls this."""
    markdown = STEP.sub(lambda found: code_block(*step(int(found[1]))), markdown)
    return FUNCTION.sub(lambda found: code_block(*function(found[1], found[2])), markdown)


def code_block(path: Path, code: str) -> str:
    return f'```python title="{path.relative_to(SOURCE.parent)}"\n{code}\n```'

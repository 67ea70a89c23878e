"""What each metric means, from the guide "Reading your run": the only place that has the text."""

import functools
import re
from pathlib import Path
from typing import Any

from td3.report.glossary import GUIDE, METRICS

PACKAGED = Path(__file__).with_name("reading-your-run.md")
ANCHORS = {  # of metrics whose section has another name
    "mean_return": "return",
    "saturated": "saturated-actions",
    "episodes": "episode-return",
    "steps_per_second": "speed",
}
HEADING = re.compile(r"^## (.+?) \{ #([\w-]+) \}$", re.MULTILINE)


def anchor_of(metric: str) -> str:
    """The section on a metric of metrics.jsonl."""
    first = metric.partition(".")[0]
    return ANCHORS.get(first, first.replace("_", "-"))


@functools.cache
def explanations() -> dict[str, dict[str, Any]]:
    """Anchor → title, one or two sentences, and the section of the guide as blocks."""
    found: dict[str, dict[str, Any]] = {}
    parts = HEADING.split(guide())
    for title, anchor, section in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        short = METRICS.get(anchor, ("", ""))[1]
        found[anchor] = {"title": title, "short": short, "blocks": blocks(section)}
    for anchor, (title, short) in METRICS.items():  # an installation without the guide
        found.setdefault(anchor, {"title": title, "short": short, "blocks": []})
    return found


@functools.cache
def guide() -> str:
    """The text of the guide; empty if this installation lacks it."""
    checkout = Path(__file__).parents[3] / GUIDE
    path = PACKAGED if PACKAGED.is_file() else checkout
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@functools.cache
def overview() -> dict[str, dict[str, str]]:
    """Metric → what is healthy and what is alarming, from the table of the guide."""
    rows = re.findall(r"^\| \[.+?\| `(\w+)`[^|]*\| ([^|]*) \| ([^|]*) \|$", guide(), re.M)
    return {
        name: {"healthy": plain(healthy), "alarming": "" if alarming == "–" else plain(alarming)}
        for name, healthy, alarming in rows
    }


def signs(metric: str) -> dict[str, str]:
    """What is healthy and what is alarming; empty if the guide's table does not say it."""
    return overview().get(metric, {"healthy": "", "alarming": ""})


def plain(markdown: str) -> str:
    return markdown.replace("`", "").strip()


def blocks(section: str) -> list[dict[str, Any]]:
    """Paragraphs, list items and code of a section; the browser makes nodes of them, not HTML."""
    from markdown_it import MarkdownIt

    found: list[dict[str, Any]] = []
    tone, inside = "", "p"
    for token in MarkdownIt("commonmark").enable("table").parse(section):
        if token.type == "table_open":
            inside = "table"
        elif token.type in ("list_item_open", "list_item_close", "table_close"):
            inside = "li" if token.type == "list_item_open" else "p"
        elif token.type == "fence":
            found.append({"kind": "pre", "tone": tone, "spans": [["", token.content]]})
        elif token.type == "inline" and inside != "table":
            spans = inline(token.children or [])
            if spans and spans[0][0] == "strong":
                first = spans[0][1]
                tone = "bad" if first.startswith("Not normal") else tone
                tone = "good" if first.startswith("Normal") else tone
            if any(text.strip() for _, text in spans):
                found.append({"kind": inside, "tone": tone, "spans": spans})
    return found


def inline(tokens: list[Any]) -> list[list[str]]:
    """[style, text] pairs; the style is code, strong, em or empty."""
    spans: list[list[str]] = []
    style = ""
    for token in tokens:
        if token.type in ("strong_open", "em_open"):
            style = token.type.removesuffix("_open")
        elif token.type in ("strong_close", "em_close"):
            style = ""
        elif token.type == "code_inline":
            spans.append(["code", token.content])
        elif token.type in ("softbreak", "hardbreak"):
            spans.append(["", " "])
        elif token.type == "text" and token.content:
            spans.append([style, token.content])
    return spans

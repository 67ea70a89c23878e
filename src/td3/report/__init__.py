"""Run folders → numbers, curves, tables and pages.

`summary.py` reads runs, `curves.py` groups their seeds, `intervals.py` adds confidence intervals.
`plots.py` draws curves, also published ones (`reference.py`). `page.py` writes the report;
`document.py` makes HTML from its Markdown and `glossary.py` explains the metrics.
"""

"""Run folders → numbers, curves, tables and pages.

`summary.py` reads runs, `curves.py` groups their seeds, `intervals.py` says how far to trust them;
`plots.py` draws them, beside what others published (`reference.py`), and `page.py` tells it all as
a `document.py`.
"""

"""The studio: a page on the runs in a folder, and on how each of them learns.

`page/` is a static web page. `site.py` answers its requests; everything it reads may be deleted,
half-written or damaged at any moment, and nothing in a run folder is changed.
"""

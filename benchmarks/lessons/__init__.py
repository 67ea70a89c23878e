"""Make the notebooks of the lessons from the pages in docs/lessons, run them, keep the output."""

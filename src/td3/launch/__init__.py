"""Start and resume runs: everything around the loop."""

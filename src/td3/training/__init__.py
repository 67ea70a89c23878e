"""One training step, one run: collect, learn, evaluate, record, checkpoint."""

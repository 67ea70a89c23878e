"""What Python users call: train, resume, load a run, evaluate. The commands call the same code."""

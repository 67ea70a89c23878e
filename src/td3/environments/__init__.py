"""Tasks, observations, wrappers, and where environments run. Nothing here imports torch."""

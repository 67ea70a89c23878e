"""The run folder on disk: settings, lock, checkpoints, versions, and whether they fit."""

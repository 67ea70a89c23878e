"""What is on disk: the run folder, durable files, checkpoints, and whether they fit."""

"""Execution on a CPU: the traced update as a plan of kernel calls."""

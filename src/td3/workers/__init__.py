"""Processes that work for this one: they step environments and play evaluations."""

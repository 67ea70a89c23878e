"""The benchmark laboratory of this repository: `python -m benchmarks COMMAND` from its root.

A package run with `-m` needs no installation: Python puts the current folder on the path.
"""

"""Processes that work for this one: they step environments and play evaluations.

`pool.py` has many a `worker.py` step environments; `evaluations.py`, one level up, has an
`evaluator.py` or more play episodes. `processes.py` starts and ends them, `exchange.py` is how they
talk.
"""

"""Is everything in place? What `td3 doctor` looks into.

`diagnosis.py` examines the machine and puts everything together, `inspection.py` judges a task, and
`rehearsal.py` acts in it at random.
"""

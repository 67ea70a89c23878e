"""How fast, and how good: what `td3 bench` measures, and the pages that show what is stored.

`measure.py` has the figures and the rounds, and times updates and training; `environments.py`,
`images.py` and `scaling.py` time the rest, `peers/` other libraries. `paper.py` trains the paper's
tasks, `stored.py` keeps what is worth keeping of a run, `outcomes.py` compares it with what others
published. `performance.py` and `results.py` make the pages, between marks that `pages.py` finds.
"""

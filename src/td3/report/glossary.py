"""One or two sentences about each metric; the guide explains them in full."""

import os
from pathlib import Path
from urllib.parse import quote

GUIDE = "docs/guide/reading-your-run.md"
METRICS = {  # anchor, here and in the guide → name, explanation
    "return": (
        "Evaluation return",
        "Sum of the rewards of an episode, as a mean over episodes without exploration noise.",
    ),
    "episode-return": (
        "Episode return",
        "Return of the training episodes, with exploration noise. It is usually lower than the "
        "evaluation return.",
    ),
    "best-and-last": (
        "Best and last ten",
        "The best evaluation is a maximum over many noisy measurements, so it is too high on "
        "average. The mean of the last ten evaluations has no such bias.",
    ),
    "interval": (
        "Interval",
        "95 % confidence interval of the mean over seeds (Student's t). It needs two seeds or "
        "more; with two or three it is wide.",
    ),
    "q": (
        "Mean Q",
        "The first critic's mean estimate of the discounted return. It should level off; growth "
        "without limit means divergence.",
    ),
    "critic-loss": (
        "Critic loss",
        "Sum of the two critics' mean squared errors. It grows with the size of the returns and "
        "need not approach zero.",
    ),
    "actor-loss": (
        "Actor loss",
        "Minus the first critic's estimate for the actor's own actions. It falls as Q rises.",
    ),
    "saturated-actions": (
        "Saturated actions",
        "Share of action components beyond 99 % of their bounds. Near 100 % the actor gets hardly "
        "any gradient.",
    ),
    "episode-length": (
        "Episode length",
        "Mean number of steps of the training episodes that ended since the last record.",
    ),
    "success": (
        "Success rate",
        "Share of evaluation episodes that ended with is_success or success in the environment's "
        "info.",
    ),
    "info": (
        "Numbers of the environment",
        "What the environment reports in its info (setting environment.info), as a mean over the "
        "training episodes that ended since the last record.",
    ),
    "diverged": (
        "Diverged",
        "A metric or network of the agent became infinite or NaN. Its training ended there; its "
        "best policy is kept.",
    ),
    "speed": (
        "Speed",
        "Environment steps per second of one seed, over the time at work; pauses between a stop "
        "and a resume do not count.",
    ),
}


def link(text: str, anchor: str) -> str:
    """A name that shows its explanation as a tooltip and leads to the glossary of the page."""
    return f'[{text}](#{anchor} "{METRICS[anchor][1]}")'


def glossary(folder: Path) -> str:
    """The explanations as a Markdown list, with links to the guide if it is on this machine."""
    path = Path(__file__).parents[3] / GUIDE
    guide = quote(Path(os.path.relpath(path, folder)).as_posix()) if path.is_file() else ""
    lines = []
    for anchor, (name, text) in METRICS.items():
        more = f" [More.]({guide}#{anchor})" if guide else ""
        lines.append(f'- <a id="{anchor}"></a>**{name}.** {text}{more}')
    return "\n".join([*lines, "", f"The guide `{GUIDE}` of td3 explains them in full."])

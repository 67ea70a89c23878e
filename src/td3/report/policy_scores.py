"""Statistics over the test episodes of trained policies, as `td3 evaluate` reports them."""

import json
import math
import statistics
from typing import Any

from td3.intervals import next_mean_interval, over_seeds

Row = dict[str, Any]


def score(returns: list[float]) -> Row:
    """Mean and population standard deviation over episodes."""
    return {"mean_return": statistics.fmean(returns), "std_return": statistics.pstdev(returns)}


def summarize(rows: list[Row]) -> Row:
    """All agents together, and the agents of each combination of settings."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps(row["settings"]), []).append(row)
    combinations = [
        {
            "settings": own[0]["settings"],
            "agents": len(own),
            **pool(own),
            **over_seeds("mean_return", [row["mean_return"] for row in own]),
        }
        for own in groups.values()
    ]
    return {**pool(rows), "agents": rows, "settings": combinations}


def pool(rows: list[Row]) -> Row:
    """The score over the episodes of all these agents."""
    returns = [value for row in rows for value in row["returns"]]
    return {**score(returns), "episodes": len(returns)}


def compare_with_published(published: Row | None, returns: list[float]) -> Row | None:
    """The published score of a policy, and whether these returns agree with it."""
    keys = ("mean_return", "std_return", "episodes")
    if not published or not all(isinstance(published.get(key), int | float) for key in keys):
        return None
    mean, std, episodes = (published[key] for key in keys)
    if episodes < 2:
        return None
    low, high = next_mean_interval(mean, std, episodes, len(returns))
    found = statistics.fmean(returns)
    # If all episodes are equal, only rounding may differ.
    nearly = any(math.isclose(found, value, rel_tol=1e-6) for value in (mean, low, high))
    return {
        **published,
        "expected_low": low,
        "expected_high": high,
        "reproduced": nearly or low <= found <= high,
    }

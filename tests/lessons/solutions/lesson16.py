"""Lesson 16: overestimation."""

NAME = "overestimation"

HEAD = """
def overestimation(promised, rewards, discount):
    factors = discount ** torch.arange(rewards.shape[1])
"""
RIGHT = "    return (promised - rewards @ factors).mean()"
SOLUTION = HEAD + RIGHT + "\n\n\ncheck(16, overestimation)\n"

MISTAKES = {
    HEAD + "    ...": "not filled yet",
    HEAD + RIGHT.replace("(promised - rewards @ factors)", "(rewards @ factors - promised)"): (
        "The sign is wrong"
    ),
    HEAD + RIGHT.replace("rewards @ factors", "rewards.sum(1)"): "not discounted",
    HEAD + RIGHT.replace("@ factors", "@ factors * discount"): "counts in full",
    HEAD + RIGHT.replace("@ factors", "@ factors.flip(0)"): "from the wrong end",
    HEAD + RIGHT.replace("rewards @ factors", "(rewards * factors).mean(1)"): "not a mean",
    HEAD + RIGHT.replace(".mean()", ".abs().mean()"): "absolute differences",
    HEAD + RIGHT.replace(".mean()", ".square().mean()"): "squared differences",
    HEAD + "    return promised.mean()": "Subtract the return",
    HEAD + "    return (rewards @ factors).mean()": "This is the return",
    HEAD + RIGHT.replace("mean", "sum"): "the sum over the episodes",
    HEAD + RIGHT.replace(".mean()", ""): "must be one number",
    HEAD + RIGHT + " + 1": "differs from",
    HEAD + RIGHT.replace("rewards @ factors", "factors @ rewards"): "raised RuntimeError",
}

"""Lesson 9: the Bellman target."""

NAME = "bellman_target"

HEAD = "def bellman_target(reward, terminated, truncated, next_q, discount):\n    return "
RIGHT = "reward + (1 - terminated) * discount * next_q.detach()"
SOLUTION = HEAD + RIGHT + "\n\n\ncheck(9, bellman_target)\n"

MISTAKES = {
    HEAD.partition("\n")[0] + " ...": "not filled yet",
    HEAD + RIGHT.replace(".detach()", ""): "you forgot detach",
    HEAD + RIGHT.replace("terminated", "torch.maximum(terminated, truncated)"): (
        "A truncated episode counts as done"
    ),
    HEAD + RIGHT.replace("terminated", "truncated"): "the other way round",
    HEAD + RIGHT.replace("(1 - terminated) * ", ""): "Nothing follows there",
    HEAD + RIGHT.replace("(1 - terminated)", "terminated"): "not by terminated",
    HEAD + "(1 - terminated) * (reward + discount * next_q)": "The reward of the last step is lost",
    HEAD + RIGHT.replace("discount * ", ""): "discount is missing",
    HEAD + f"discount * ({RIGHT.replace('discount * ', '')})": "discount multiplies the reward",
    HEAD + RIGHT.replace("reward + ", ""): "reward is missing",
    HEAD + "reward": "the reward alone",
    HEAD + RIGHT.replace("+", "-", 1): "subtracted",
    HEAD + RIGHT.replace("reward", "reward.squeeze(1)"): "must have the shape (24, 1)",
    HEAD + RIGHT.replace("terminated", "terminated.bool()"): "raised RuntimeError",
    HEAD + RIGHT + " + 1": "differs from",
}

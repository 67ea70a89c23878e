"""Lesson 18: the delay."""

NAME = "actor_updates"

HEAD = "def actor_updates(lengths, policy_freq):\n    return "
RIGHT = "list(range(0, sum(lengths), policy_freq))"
SOLUTION = HEAD + RIGHT + "\n\n\ncheck(18, actor_updates)\n"

LOOP = """
def actor_updates(lengths, policy_freq):
    moved, update = [], 0
    for length in lengths:
        for it in range(length):
            if it % policy_freq == 0:
                moved.append(NUMBER)
            update += 1
    return moved
"""

MISTAKES = {
    "def actor_updates(lengths, policy_freq): ...": "not filled yet",
    LOOP.replace("NUMBER", "update"): "as in the listings",
    LOOP.replace("NUMBER", "it"): "so do your numbers",
    HEAD + RIGHT + "[1:]": "Update 0 is due too",
    HEAD + RIGHT.replace("(0,", "(policy_freq - 1,"): "not after policy_freq updates",
    HEAD + RIGHT.replace("sum", "len"): "numbers of episodes",
    HEAD + RIGHT.replace("(lengths)", "(lengths) + 1"): "below their sum",
    HEAD + "list(range(sum(lengths)))": "all updates",
    HEAD + "5": "Return a list",
    HEAD + RIGHT + "[:-1]": "your list begins with",
    HEAD + "list(range(0, lengths, policy_freq))": "raised TypeError",
}

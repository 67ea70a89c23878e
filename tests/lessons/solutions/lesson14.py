"""Lesson 14: the actor target follows."""

NAME = "follow"

LINE = "def follow(network, target, tau):"
HEAD = LINE + "\n    for own, old in zip(network.parameters(), target.parameters()):\n        "
RIGHT = "old.data.copy_(tau * own.data + (1 - tau) * old.data)"
SOLUTION = HEAD + RIGHT + "\n\n\ncheck(14, follow)\n"
REVERSED = RIGHT.replace("old", "x").replace("own", "old").replace("x", "own")

MISTAKES = {
    LINE + " ...": "not filled yet",
    HEAD + "old = tau * own.data + (1 - tau) * old.data": "only makes a new name",
    HEAD + RIGHT.replace("tau * own", "(1 - tau) * own").replace("+ (1 - tau)", "+ tau"): (
        "are exchanged"
    ),
    HEAD + "old.data.copy_(own.data)": "a copy of the network",
    HEAD + RIGHT.replace("(1 - tau) * ", ""): "loses nothing",
    HEAD + "old.data.mul_(1 - tau)": "The network's share is missing",
    HEAD + RIGHT.replace("tau * own", "own"): "counts in full",
    HEAD + "old.data.sub_(tau * (own.data - old.data))": "moves away",
    HEAD + "old.data.copy_((own.data + old.data) / 2)": "the mean of both",
    HEAD + REVERSED: "The network follows the target",
    HEAD + RIGHT + "\n        own.data.add_(1)": "own numbers changed",
    HEAD + "old.copy_(tau * own + (1 - tau) * old)": "carries a gradient",
    HEAD + RIGHT.replace("(1 - tau)", "(1 - 2 * tau)"): "differs from",
    HEAD + "own.copy_(old)": "raised RuntimeError",
}

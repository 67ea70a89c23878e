"""Lesson 8: the smaller value."""

NAME = "smaller"

HEAD = "def smaller(first, second):\n    return "
SOLUTION = HEAD + "torch.minimum(first, second)\n\n\ncheck(8, smaller)\n"

MISTAKES = {
    "def smaller(first, second): ...": "not filled yet",
    HEAD + "torch.maximum(first, second)": "the larger value",
    HEAD + "(first + second) / 2": "the mean",
    HEAD + "first": "the first critic's value",
    HEAD + "second": "always the second",
    HEAD + "first if first.mean() < second.mean() else second": "the first critic's value",
    HEAD + "second if first.mean() < second.mean() else first": "Decide row by row",
    HEAD + "first + second": "the sum",
    HEAD + "torch.min(torch.cat([first, second]))": "one number for the whole batch",
    HEAD + "torch.min(torch.cat([first, second], dim=1), dim=1)": "This is a tuple",
    HEAD + "torch.min(torch.cat([first, second], dim=1), dim=1).values": "must have the shape",
    HEAD + "torch.where(first.abs() < second.abs(), first, second)": "without their signs",
    HEAD + "torch.minimum(first, second) - 1": "differs from",
    HEAD + "min(first, second)": "raised RuntimeError",
}

"""Lesson 19: impossible values."""

NAME = "impossible"

LINE = "def impossible(q, low, high, discount, terminates):\n"
HEAD = LINE + "    lower, upper = low / (1 - discount), high / (1 - discount)\n"
ENDS = """
    if terminates:
        lower, upper = min(lower, low), max(upper, high)
"""
RIGHT = "    return (q < lower) | (q > upper)"
SOLUTION = HEAD + ENDS + RIGHT + "\n\n\ncheck(19, impossible)\n"

MISTAKES = {
    LINE + "    ...": "not filled yet",
    HEAD + ENDS + RIGHT.replace("|", "&"): "is impossible",
    HEAD + ENDS + "    return (q >= lower) & (q <= upper)": "the opposite",
    HEAD + RIGHT: "may end after one step",
    HEAD + ENDS.replace("if terminates", "if True") + RIGHT: "always gets all of its rewards",
    LINE + "    lower, upper = low, high\n" + RIGHT: "divide by (1 - discount).",
    HEAD.replace(" / (1 - discount)", " * (1 - discount)") + RIGHT: "You multiply",
    HEAD + ENDS + "    return q > upper": "only the upper limit",
    HEAD + ENDS + "    return q < lower": "only the lower limit",
    HEAD + ENDS + "    return ((q < lower) | (q > upper)).float()": "tensor of booleans",
    HEAD + ENDS + "    return ((q < lower) | (q > upper)).any()": "must have the shape (1000, 1)",
    HEAD + ENDS + "    return q.abs() > max(abs(lower), upper)": "only the lower limit",
    HEAD + ENDS + RIGHT.replace("(q < lower)", "(q < low)"): "divide by (1 - discount)",
    HEAD + ENDS + "    return lower > q > upper": "RuntimeError",
    HEAD + ENDS + "    return (q < lower).float() | (q > upper)": "raised NotImplementedError",
}

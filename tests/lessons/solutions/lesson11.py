"""Lesson 11: the critic loss."""

NAME = "critic_loss"

HEAD = "def critic_loss(first, second, target_q):\n    return "
RIGHT = "F.mse_loss(first, target_q) + F.mse_loss(second, target_q)"
SQUARES = "((first - target_q) ** 2).mean() + ((second - target_q) ** 2).mean()"
SOLUTION = HEAD + RIGHT.replace("F.", "torch.nn.functional.") + "\n\n\ncheck(11, critic_loss)\n"

MISTAKES = {
    "def critic_loss(first, second, target_q): ...": "not filled yet",
    HEAD + "F.mse_loss(first, target_q)": "the first critic alone",
    HEAD + "F.mse_loss(second, target_q)": "the second critic alone",
    HEAD + f"({RIGHT}) / 2": "the mean of both",
    HEAD + SQUARES.replace("mean", "sum"): "the sum over the batch",
    HEAD + SQUARES.replace(" ** 2", ""): "not squared",
    HEAD + SQUARES.replace(") ** 2)", ").abs())"): "absolute errors",
    HEAD + SQUARES.replace(".mean()", ".mean().sqrt()"): "the root",
    HEAD + "((first + second - 2 * target_q) ** 2).mean()": "before they are squared",
    HEAD + "F.mse_loss(torch.minimum(first, second), target_q)": "belongs to the target",
    HEAD + "F.mse_loss(first, second)": "with each other",
    HEAD + "(first - target_q).mean() ** 2 + (second - target_q).mean() ** 2": "mean is squared",
    HEAD + f"-({RIGHT})": "Only the sign",
    HEAD + SQUARES.replace(".mean()", ""): "must be one number",
    HEAD + f"({RIGHT}).detach()": "carries no gradient",
    HEAD + RIGHT.replace("(second,", "(second.detach(),"): "reaches one of the critics",
    HEAD + f"({RIGHT}).item()": "must be a tensor",
    HEAD + RIGHT + " + 1": "differs from",
    HEAD + RIGHT.replace("mse_loss(first", "mean_squared(first"): "AttributeError",
}

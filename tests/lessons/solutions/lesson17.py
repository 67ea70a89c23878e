"""Lesson 17: the mean over many draws of noise."""

NAME = "mean_next_q"

HEAD = """
def mean_next_q(agent, batch, smoothed):
    values = [agent.critic_target(batch.next_state, action) for action in smoothed]
"""
RIGHT = "    return torch.stack([torch.minimum(*pair) for pair in values]).mean(dim=0)"
SOLUTION = HEAD + RIGHT + "\n\n\ncheck(17, mean_next_q)\n"
BOTH = "torch.stack([torch.stack(pair) for pair in values])"

MISTAKES = {
    HEAD + "    ...": "not filled yet",
    HEAD + "    action = smoothed.mean(dim=0)\n"
    "    return torch.minimum(*agent.critic_target(batch.next_state, action))": (
        "The actions are averaged"
    ),
    HEAD + f"    return {BOTH}.mean(dim=0).amin(dim=0)": "mean comes before the minimum",
    HEAD + "    return torch.minimum(*values[0])": "one draw only",
    HEAD + RIGHT.replace("mean(", "amin("): "the smallest value",
    HEAD + RIGHT.replace("mean(", "amax("): "the largest value",
    HEAD + RIGHT.replace("mean(", "sum("): "the sum over",
    HEAD.replace("critic_target", "critic") + RIGHT: "the online critics",
    HEAD.replace("next_state", "state") + RIGHT: "value batch.state",
    HEAD + f"    return {BOTH}.mean(dim=(0, 1))": "the mean of both",
    HEAD + RIGHT.replace("torch.minimum(*pair)", "pair[0]"): "the first critic alone",
    HEAD + RIGHT.replace(".mean(dim=0)", ""): "must have the shape (40, 1)",
    HEAD + RIGHT + " + 1": "differs from",
    HEAD + "    return torch.minimum(*values).mean(dim=0)": "TypeError",
}

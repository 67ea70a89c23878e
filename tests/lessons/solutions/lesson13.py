"""Lesson 13: the actor's loss."""

NAME = "actor_loss"

HEAD = "def actor_loss(agent, batch):\n    return "
RIGHT = "-agent.critic.Q1(batch.state, agent.actor(batch.state)).mean()"
BOTH = "agent.critic(batch.state, agent.actor(batch.state))"
SOLUTION = HEAD + RIGHT + "\n\n\ncheck(13, actor_loss)\n"

MISTAKES = {
    "def actor_loss(agent, batch): ...": "not filled yet",
    HEAD + RIGHT[1:]: "The sign is wrong",
    HEAD + RIGHT.replace("agent.actor(batch.state)", "batch.action"): "the stored action",
    HEAD + RIGHT.replace("agent.actor(", "agent.actor_target("): "agent.actor_target",
    HEAD + RIGHT.replace("agent.critic.", "agent.critic_target."): "The target critic",
    HEAD + RIGHT.replace("batch.state", "batch.next_state"): "about batch.next_state",
    HEAD + RIGHT.replace("actor(batch.state", "actor(batch.next_state"): "another state",
    HEAD + f"-torch.minimum(*{BOTH}).mean()": "the smaller value",
    HEAD + f"-torch.stack({BOTH}).mean()": "the mean of both",
    HEAD + f"-{BOTH}[1].mean()": "the second critic",
    HEAD + RIGHT.replace("mean", "sum"): "the sum over the batch",
    HEAD + RIGHT.replace(".mean()", ""): "must be one number",
    HEAD + RIGHT.replace("(batch.state))", "(batch.state).detach())"): "its action is detached",
    HEAD + RIGHT + ".detach()": "carries no gradient",
    HEAD + RIGHT + " + 1": "differs from",
    HEAD + RIGHT.replace("agent.actor(batch.state)", "agent.actor"): "raised AttributeError",
}

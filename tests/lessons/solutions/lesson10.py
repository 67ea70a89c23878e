"""Lesson 10: the current values."""

NAME = "current_values"

HEAD = "def current_values(agent, batch):\n    return "
RIGHT = "agent.critic(batch.state, batch.action)"
SOLUTION = HEAD + RIGHT + "\n\n\ncheck(10, current_values)\n"

MISTAKES = {
    "def current_values(agent, batch): ...": "not filled yet",
    HEAD + "agent.critic_target(batch.state, batch.action)": "the target critics",
    HEAD + "agent.critic(batch.state, agent.actor(batch.state))": "The actor chose this action",
    HEAD + "agent.critic(batch.next_state, batch.action)": "value batch.next_state",
    HEAD + "agent.critic_target(batch.next_state, agent.actor_target(batch.next_state))": (
        "That was step 7"
    ),
    HEAD + "agent.critic.Q1(batch.state, batch.action)": "not one tensor",
    HEAD + RIGHT + "[::-1]": "wrong order",
    HEAD + "[" + RIGHT + "[0]] * 2": "Both values come from the first critic",
    HEAD + "[q.detach() for q in " + RIGHT + "]": "no gradient flows",
    "@torch.no_grad()\n" + HEAD + RIGHT: "no gradient flows",
    HEAD + "[q - batch.reward for q in " + RIGHT + "]": "differs from",
    HEAD + "agent.critic(batch.action, batch.state)": "raised ValueError",
}

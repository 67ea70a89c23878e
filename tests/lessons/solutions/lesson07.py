"""Lesson 7: both target critics."""

NAME = "next_values"

HEAD = "def next_values(agent, batch, next_action):\n    return "
RIGHT = "agent.critic_target(batch.next_state, next_action)"
SOLUTION = HEAD + RIGHT + "\n\n\ncheck(7, next_values)\n"

MISTAKES = {
    "def next_values(agent, batch, next_action): ...": "not filled yet",
    HEAD + "agent.critic(batch.next_state, next_action)": "the online critics",
    HEAD + "agent.critic_target(batch.state, next_action)": "value batch.state",
    HEAD + "agent.critic_target(batch.next_state, batch.action)": "The stored action belongs",
    HEAD + "agent.critic_target(batch.state, batch.action)": "that is step 10",
    HEAD + "agent.critic_target(batch.next_state, agent.actor_target(batch.next_state))": (
        "computed again"
    ),
    HEAD + "agent.critic_target.Q1(batch.next_state, next_action)": "not one tensor",
    HEAD + RIGHT + "[::-1]": "wrong order",
    HEAD + "[" + RIGHT + "[0]] * 2": "Both values come from the first critic",
    HEAD + "[q.mean() for q in " + RIGHT + "]": "must have the shape (batch, 1)",
    HEAD + RIGHT + "[:1]": "Return two tensors",
    HEAD + "[2 * q for q in " + RIGHT + "]": "differs from",
    HEAD + "agent.critic_target(next_action, batch.next_state)": "raised ValueError",
}

"""Lesson 5: the next action."""

NAME = "next_action"

HEAD = "def next_action(agent, batch):\n    return "
SOLUTION = HEAD + "agent.actor_target(batch.next_state)\n\n\ncheck(5, next_action)\n"

MISTAKES = {
    "def next_action(agent, batch): ...": "not filled yet",
    HEAD + "agent.actor(batch.next_state)": "the online actor",
    HEAD + "agent.actor_target(batch.state)": "sees batch.state",
    HEAD + "agent.actor(batch.state)": "The online actor sees batch.state",
    HEAD + "batch.action": "the stored action",
    HEAD + "2.0 * agent.actor_target(batch.next_state)": "twice",
    HEAD + "agent.actor_target(batch.next_state) + 1": "differs from",
    HEAD + "agent.actor_target(batch.next_state).numpy()": "must be a tensor",
    HEAD + "agent.actor_target(batch.next_state[0])": "IndexError",
    HEAD + "agent.target_actor(batch.next_state)": "AttributeError",
    HEAD + "agent.actor_target(batch.next_state).mean()": "must have the shape (12, 2)",
}

"""Lesson 15: both targets follow."""

NAME = "move_targets"

HEAD = """
def follow(network, target, tau):
    for own, old in zip(network.parameters(), target.parameters()):
        old.data.copy_(tau * own.data + (1 - tau) * old.data)


def move_targets(agent, update, tau, policy_freq):
"""
RIGHT = """
    if update % policy_freq == 0:
        follow(agent.actor, agent.actor_target, tau)
        follow(agent.critic, agent.critic_target, tau)
"""
SOLUTION = HEAD + RIGHT + "\n\ncheck(15, move_targets)\n"
IF = "update % policy_freq == 0"
ACTOR = "follow(agent.actor, agent.actor_target, tau)"
CRITIC = "follow(agent.critic, agent.critic_target, tau)"
FIRST = """
        first, target = agent.critic.flat.data[:, :1], agent.critic_target.flat.data
        target.copy_(tau * first + (1 - tau) * target)
"""

MISTAKES = {
    HEAD + "    ...": "not filled yet",
    HEAD + RIGHT.replace(IF, "True"): "on every update",
    HEAD + RIGHT.replace(IF, "update and " + IF): "Update 0 is due too",
    HEAD + RIGHT.replace("update %", "(update + 1) %"): "on the wrong updates",
    HEAD + RIGHT.replace("==", "!="): "when they should rest",
    HEAD + RIGHT.replace(CRITIC, "pass"): "The critic targets do not move",
    HEAD + RIGHT.replace(ACTOR, "pass"): "The actor target does not move",
    HEAD + RIGHT.replace(" tau)", " 1)"): "are copies",
    HEAD + RIGHT.replace(" tau)", " 1 - tau)"): "are exchanged",
    HEAD + RIGHT.replace("        " + CRITIC, FIRST): "follow the first critic",
    HEAD + RIGHT.replace("critic, agent.critic_target", "critic_target, agent.critic"): (
        "An online network changed"
    ),
    HEAD + RIGHT.replace(CRITIC, CRITIC.replace("agent.critic,", "agent.actor,")): "RuntimeError",
    HEAD + RIGHT.replace(" tau)", " 2 * tau)"): "differ from",
}

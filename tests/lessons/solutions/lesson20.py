"""Capstone: the whole update."""

NAME = "update"

HEAD = "def update(agent, actor_optimizer, critic_optimizer, batch, noise, number):"
RIGHT = """
    state, next_state, action, reward, done = batch
    with torch.no_grad():
        smoothing = (0.2 * noise).clamp(-0.5, 0.5)
        next_action = (agent.actor_target(next_state) + 2 * smoothing).clamp(-2, 2)
        first, second = agent.critic_target(next_state, next_action)
        target_q = reward + (1 - done) * 0.99 * torch.minimum(first, second)

    first, second = agent.critic(state, action)
    critic_loss = ((first - target_q) ** 2).mean() + ((second - target_q) ** 2).mean()
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()

    if number % 2 == 0:
        actor_loss = -agent.critic.Q1(state, agent.actor(state)).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        agent.actor_target.flat.data.lerp_(agent.actor.flat.data, 0.005)
        agent.critic_target.flat.data.lerp_(agent.critic.flat.data, 0.005)
"""
SOLUTION = "import torch\n\n\n" + HEAD + RIGHT + "\n\ncheck(20, update)\n"
MINIMUM = "torch.minimum(first, second)"
VALUE = "agent.critic.Q1(state, agent.actor(state))"

MISTAKES = {
    HEAD + " ...": "not filled yet",
    HEAD + RIGHT.replace("actor_target(next", "actor(next"): "Step 5 asks the online actor",
    HEAD + RIGHT.replace(" + 2 * smoothing", ""): "Step 6 is missing",
    HEAD + RIGHT.replace(".clamp(-0.5, 0.5)", ""): "not clipped",
    HEAD + RIGHT.replace("critic_target(next", "critic(next"): "Step 7 asks the online critics",
    HEAD + RIGHT.replace(MINIMUM, "(first + second) / 2"): "Step 8 takes the mean",
    HEAD + RIGHT.replace(MINIMUM, "torch.maximum(first, second)"): "Step 8 takes the larger",
    HEAD + RIGHT.replace(MINIMUM, "first"): "Step 8 takes the first",
    HEAD + RIGHT.replace("(1 - done) * ", ""): "Step 9: after a terminal state",
    HEAD + RIGHT.replace("0.99 * ", ""): "the discount is missing",
    HEAD + RIGHT.replace("-agent.critic.Q1", "agent.critic.Q1"): "Step 13 goes downhill",
    HEAD
    + RIGHT.replace(VALUE, VALUE.replace(".Q1", ""))
    .replace("= -", "= -torch.minimum(*")
    .replace("(state)).mean()", "(state))).mean()"): "Step 13 climbs the smaller",
    HEAD + RIGHT.replace("number % 2 == 0", "True"): "on every update",
    HEAD + RIGHT.replace("agent.actor_target.flat", "agent.actor_target.flat.clone()"): "Step 14",
    HEAD + RIGHT.replace("agent.critic_target.flat", "agent.critic_target.flat.clone()"): "Step 15",
    HEAD + RIGHT.replace(" 0.005)", " 1.0)"): "are copies",
    HEAD + RIGHT.replace("critic_optimizer.zero_grad()", ""): "Look at steps 5 to 12",
    HEAD + RIGHT.replace("actor_optimizer.zero_grad()", ""): "Look at step 13",
    HEAD + RIGHT.replace("target_q) ** 2", "target_q).abs()"): "other numbers than those of td3",
    HEAD + RIGHT.replace("target.flat.data.lerp_", "target.flat.lerp"): "Look at step 14",
}

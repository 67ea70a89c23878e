"""Lesson 12: the critic step."""

NAME = "critic_step"

HEAD = "def critic_step(optimizer, loss):"
ZERO, BACKWARD, STEP = (
    "\n    optimizer.zero_grad()",
    "\n    loss.backward()",
    "\n    optimizer.step()",
)
SOLUTION = HEAD + ZERO + BACKWARD + STEP + "\n\n\ncheck(12, critic_step)\n"

MISTAKES = {
    HEAD + " ...": "not filled yet",
    HEAD + BACKWARD + STEP: "add up",
    HEAD + ZERO + STEP: "loss.backward() is missing",
    HEAD + ZERO + BACKWARD: "optimizer.step() is missing",
    HEAD + BACKWARD + ZERO + STEP: "deletes the new gradients",
    HEAD + ZERO + STEP + BACKWARD: "step comes last",
    HEAD + ZERO + BACKWARD + STEP + STEP: "called 2 times",
    HEAD + ZERO + BACKWARD.replace("loss", "(-loss)") + STEP: "without a sign",
    HEAD + BACKWARD + BACKWARD + STEP + ZERO: "RuntimeError",
    HEAD + ZERO.replace("zero_grad", "grad_zero") + BACKWARD + STEP: "AttributeError",
}

"""Lesson 3: twin critics."""

NAME = "MyCritic"

RIGHT = """
class MyCritic(torch.nn.Module):
    def __init__(self, state_dim, action_dim):
        super().__init__()
        linear = torch.nn.Linear
        self.layer_1 = linear(state_dim + action_dim, 32)
        self.layer_2 = linear(32, 32)
        self.layer_3 = linear(32, 1)
        self.layer_4 = linear(state_dim + action_dim, 32)
        self.layer_5 = linear(32, 32)
        self.layer_6 = linear(32, 1)

    def forward(self, state, action):
        pair = torch.cat([state, action], dim=1)
        hidden = torch.relu(self.layer_5(torch.relu(self.layer_4(pair))))
        return self.Q1(state, action), self.layer_6(hidden)

    def Q1(self, state, action):
        pair = torch.cat([state, action], dim=1)
        return self.layer_3(torch.relu(self.layer_2(torch.relu(self.layer_1(pair)))))
"""

SOLUTION = RIGHT + "\n\ncheck(3, MyCritic)\n"
COPY = RIGHT.replace(
    "self.layer_6 = linear(32, 1)",
    """self.layer_6 = linear(32, 1)
        for k in (1, 2, 3):
            copied = getattr(self, f"layer_{k}").state_dict()
            getattr(self, f"layer_{k + 3}").load_state_dict(copied)""",
)

MISTAKES = {
    RIGHT.partition("    def forward")[0] + "    def forward(self, state, action): ...": (
        "not filled yet"
    ),
    RIGHT.replace("linear(32, 1)", "linear(32, action_dim)"): "one for each number of the action",
    COPY: "Both critics return the same values",
    RIGHT.replace(
        "self.layer_5(torch.relu(self.layer_4(pair)))",
        "self.layer_5(torch.relu(self.layer_1(pair)))",
    ): "Both critics use layer_1.weight",
    RIGHT.replace(
        "torch.relu(self.layer_2(torch.relu(self.layer_1(pair))))",
        "self.layer_2(self.layer_1(pair))",
    ): "is a straight line",
    RIGHT.replace(
        "return self.Q1(state, action), self.layer_6(hidden)", "return self.Q1(state, action)"
    ): "must return two tensors",
    RIGHT.replace("return self.layer_3(", "return self.layer_3(0 * "): "ignores the state",
    RIGHT.replace("[state, action]", "[state, 0 * action]"): "ignores the action",
    RIGHT.replace(
        "return self.Q1(state, action), self.layer_6(hidden)",
        "return self.layer_6(hidden), self.Q1(state, action)",
    ): "value of the second critic",
    RIGHT.replace("self.layer_6(hidden)", "self.layer_6(hidden).detach()"): "carry no gradient",
    RIGHT.replace(
        "return self.Q1(state, action), self.layer_6(hidden)",
        "return self.Q1(state, action)[:, 0], self.layer_6(hidden)",
    ): "must have the shape (batch, 1)",
}

"""Lesson 2: the actor."""

NAME = "MyActor"

HEAD = """
class MyActor(torch.nn.Module):
    def __init__(self, state_dim, action_dim, max_action):
        super().__init__()
        self.layer_1 = torch.nn.Linear(state_dim, 64)
        self.layer_2 = torch.nn.Linear(64, 64)
        self.layer_3 = torch.nn.Linear(64, action_dim)
        self.max_action = max_action

    def forward(self, state):
"""

RIGHT = """
        hidden = torch.relu(self.layer_1(state))
        hidden = torch.relu(self.layer_2(hidden))
        return self.max_action * torch.tanh(self.layer_3(hidden))
"""

SOLUTION = HEAD + RIGHT + "\n\ncheck(2, MyActor)\n"

TANH = "self.max_action * torch.tanh(self.layer_3(hidden))"

MISTAKES = {
    HEAD + "        ...": "not filled yet",
    HEAD + RIGHT.replace(TANH, "self.layer_3(hidden)"): "Put torch.tanh",
    HEAD + RIGHT.replace(TANH, "torch.tanh(self.layer_3(hidden))"): "Multiply by self.max_action",
    HEAD + RIGHT.replace(TANH, "self.max_action * torch.tanh(torch.relu(self.layer_3(hidden)))"): (
        "never negative"
    ),
    HEAD + RIGHT.replace(TANH, "self.layer_3(hidden).clamp(-2, 2)"): "A clamp has no slope",
    HEAD + RIGHT.replace("torch.relu(self.layer_2(hidden))", "self.layer_2(hidden)"): "no ReLU",
    HEAD + RIGHT.replace("torch.relu(self.layer_1(state))", "self.layer_1(state)"): "no ReLU",
    HEAD + RIGHT.replace("self.layer_2(hidden)", "hidden"): "layer_2.weight gets no gradient",
    HEAD + RIGHT.replace("torch.relu(self.layer_2(hidden))", "hidden.detach()"): "gets no gradient",
    HEAD + RIGHT.replace("self.layer_3(hidden)", "self.layer_4(hidden)"): "AttributeError",
    "def MyActor(state_dim, action_dim, max_action):\n    return 5": "must be an nn.Module",
}

"""Lesson 4: sample a batch."""

NAME = "sample"

RIGHT = """
def sample(storage, batch_size, rng):
    places = rng.integers(0, len(storage), batch_size)
    parts = zip(*[storage[place] for place in places])
    return tuple(np.array(part, dtype=np.float32).reshape(batch_size, -1) for part in parts)
"""

SOLUTION = RIGHT + "\n\ncheck(4, sample)\n"

STATES = """
def sample(storage, batch_size, rng):
    places = rng.integers(0, len(storage), batch_size)
    state = np.array([storage[place][0] for place in places])
    last = np.array([storage[place][3:] for place in places], dtype=np.float32)
    return STATES
"""
ANEW = """
def sample(storage, batch_size, rng):
    def part(k):
        places = rng.integers(0, len(storage), batch_size)
        return np.array([storage[p][k] for p in places], dtype=float).reshape(batch_size, -1)

    return tuple(part(k) for k in range(5))
"""

MISTAKES = {
    "def sample(storage, batch_size, rng): ...": "not filled yet",
    RIGHT.replace(".reshape(batch_size, -1)", ""): "Reshape it to (batch, 1)",
    STATES.replace("STATES", "state, state, state, state, state"): "width of a state",
    STATES.replace("STATES", "state, state, state[:, :2], last[:, :1], last[:, 1:]"): (
        "a copy of state"
    ),
    ANEW: "belong to different transitions",
    RIGHT.replace("len(storage)", "len(storage) - 1"): "The newest transition is never drawn",
    RIGHT.replace("rng.integers(0, len(storage), batch_size)", "np.arange(batch_size) % 30"): (
        "consecutive transitions"
    ),
    RIGHT.replace("0, len(storage)", "20, len(storage)"): "All must have the same chance",
    RIGHT.replace("rng.integers", "np.random.default_rng(0).integers"): "the same batch",
    RIGHT.replace(
        "rng.integers(0, len(storage), batch_size)", "rng.permutation(len(storage))[:batch_size]"
    ): "ValueError",
    RIGHT.replace("return tuple(", "return next("): "Return five arrays",
}

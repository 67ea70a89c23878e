"""Lesson 1: the replay buffer."""

NAME = "Ring"

HEAD = """
class Ring:
    def __init__(self, max_size):
        self.max_size = int(max_size)
        self.storage = []
        self.pointer = 0

    def add(self, transition):
"""

RIGHT = """
        if len(self.storage) < self.max_size:
            self.storage.append(transition)
        else:
            self.storage[self.pointer] = transition
            self.pointer = (self.pointer + 1) % self.max_size
"""

SOLUTION = HEAD + RIGHT + "\n\ncheck(1, Ring)\n"

MISTAKES = {
    HEAD + "        ...": "not filled yet",
    HEAD + "        raise NotImplementedError": "not filled yet",
    HEAD + "        self.storage.append(transition)": "grows without limit",
    HEAD + RIGHT.replace("self.storage[self.pointer] = transition", "return"): "drops what is new",
    HEAD + RIGHT.replace("(self.pointer + 1) % self.max_size", "0"): "lands in place 0",
    HEAD + RIGHT.replace("[self.pointer]", "[-1]"): "lands in the last place",
    HEAD + RIGHT.replace(" % self.max_size", ""): "IndexError",
    HEAD + "        self.storage = (self.storage + [transition])[-self.max_size :]": "pop, insert",
    HEAD.replace("int(max_size)", "max_size")
    + RIGHT.replace("[self.pointer]", "[self.max_size]"): "IndexError",
    HEAD + RIGHT.replace("append(transition)", "append(transition[0])"): "as they were given",
}

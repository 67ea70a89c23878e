"""A file with the interface of the authors' TD3.py and utils.py."""

AGENT = """
import numpy as np
class TD3:
    def __init__(self, state_dim, action_dim, max_action, policy_noise, noise_clip):
        self.actions, self.noise, self.trained = action_dim, (policy_noise, noise_clip), 0
    def select_action(self, state):
        return np.zeros(self.actions)
    def train(self, buffer, batch_size):
        assert batch_size == 256
        self.trained += 1
class ReplayBuffer:
    def __init__(self, state_dim, action_dim):
        self.done = []
    def add(self, state, action, next_state, reward, done):
        self.done.append(done)
"""

"""Variants of TD3: each is a subclass that names the steps it replaces."""

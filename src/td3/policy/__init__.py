"""The result of training: act, evaluate, film, and store a policy."""

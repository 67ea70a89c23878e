"""Hyperparameter search: many trials in one population (`td3 tune`)."""

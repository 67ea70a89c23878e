"""How far the playground's physics is that of `td3 evaluate`: python -m benchmarks.fidelity"""

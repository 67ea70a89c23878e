"""Speed measurements behind `td3 bench`; `benchmarks/` in the repository builds on them."""

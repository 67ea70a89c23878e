"""How fast, and how good: what `td3 bench` measures, and the pages that show what is stored."""

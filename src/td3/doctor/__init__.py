"""Is everything in place? What `td3 doctor` looks into."""

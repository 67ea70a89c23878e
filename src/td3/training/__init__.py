"""What one step and one run are: collect, learn, evaluate, record."""

"""What an agent acts in: tasks, observations, wrappers, and where environments run. No torch."""

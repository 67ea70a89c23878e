"""How TD3 learns: the fifteen steps, with a leading axis of agents. Needs torch and numpy only."""

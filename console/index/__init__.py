"""What the chain's numbered events tell, in an SQLite file: all that ever happened, long after it left the state."""

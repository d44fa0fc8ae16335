"""The chain: its types, its state machine, and what connects them to the world."""

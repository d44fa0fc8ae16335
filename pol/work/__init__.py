"""What a provider does in a round, and how a round's updates become the next state."""

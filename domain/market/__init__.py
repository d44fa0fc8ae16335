"""The vocabulary of the market component."""

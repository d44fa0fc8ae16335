"""The vocabulary of the registry component."""

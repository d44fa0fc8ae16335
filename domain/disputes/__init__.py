"""The vocabulary of the disputes component."""

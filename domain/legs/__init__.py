"""The vocabulary of the legs component."""

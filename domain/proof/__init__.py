"""The vocabulary of the proof component."""

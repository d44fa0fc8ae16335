"""Loops of a fixed number of turns, as one primitive."""

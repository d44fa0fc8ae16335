"""Capture of loops with a fixed number of turns as one primitive."""

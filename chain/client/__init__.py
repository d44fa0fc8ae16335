"""Talking to a node."""

"""A Python function over tensors as a program of primitives."""

"""Capture of Python functions over tensors as programs of primitives."""

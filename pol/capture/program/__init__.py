"""Emitter of primitives into a program, and formulas over its values."""

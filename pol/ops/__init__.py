"""The operations of a program, by family: shape rule, work and reference of each side by side."""

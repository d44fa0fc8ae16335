"""Writing primitives into a program."""

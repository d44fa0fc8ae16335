"""Native kernels: the slow primitives in C, with the bits of their references."""

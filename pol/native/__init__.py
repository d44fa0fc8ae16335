"""Native kernels: the slow primitives in C. They give the same bits as their references."""

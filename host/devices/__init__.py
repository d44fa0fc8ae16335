"""The processors and accelerators of this machine, one file per family."""

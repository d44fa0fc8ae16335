"""The work that takes time: sandboxed workers, the code that starts them, and the measurement of the machine."""

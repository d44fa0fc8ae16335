"""Optimizers: the parameters that a job trains, their update rules and their learning rates."""

"""Optimizers: which parameters move, by which rule, at which rate."""

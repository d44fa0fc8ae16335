"""A market on a virtual clock, from one seed: the real state machine and decisions, with made-up training."""

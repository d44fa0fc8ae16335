"""Replaying the training that a trace claims, and the trace file of a local run."""

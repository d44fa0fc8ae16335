"""Inspecting, training and evaluating a job on one machine, without a network."""

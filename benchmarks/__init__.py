"""Measurements: ``python -m benchmarks NAME [--output json]``; each has its baseline in the same call."""

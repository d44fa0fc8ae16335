"""Benchmarks: ``python -m benchmarks NAME [--output json]``; each measures its baseline in the same call."""

"""Benchmarks: ``python -m benchmarks NAME [--output json]``; each benchmark measures its baseline in the same call."""

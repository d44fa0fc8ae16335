"""Versions of what everybody must compute alike, each stated once."""

EXECUTOR_VERSION = 1
"""Definitions of the primitives. Changes whenever one gives other bits, or comes or goes."""

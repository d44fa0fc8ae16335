"""Lots, shares, rounds, audits and settlement."""

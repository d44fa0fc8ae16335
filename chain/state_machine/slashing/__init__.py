"""Slashing: validators that sign twice or do not sign, their jail, and the evidence."""

"""Governance: proposals, deposits and votes, the tally, and changes of parameters."""

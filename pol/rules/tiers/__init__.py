"""Tiers: the ways to verify the work of an order; each is a value that holds all differences from the others."""

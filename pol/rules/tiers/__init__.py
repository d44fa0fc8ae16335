"""Tiers: the ways to verify the work of an order.

Each tier is one value that holds everything in which the tier differs from other tiers.
"""

"""Tiers: the ways to verify the work of an order.

Each tier is one value that holds everything in which it differs from the others.
"""

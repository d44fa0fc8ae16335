"""Balances, pots, bonds, and the money of orders."""

"""Tiers: how the work of an order is verified. Each is a value; nothing else knows how they differ."""

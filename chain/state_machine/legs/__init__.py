"""Legs: the parts of orders that bids serve, from the match to the end."""

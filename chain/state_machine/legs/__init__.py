"""Legs: the parts of orders that bids serve, from their match to their end."""

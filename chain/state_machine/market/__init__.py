"""Bids, orders in the book, and the auction."""

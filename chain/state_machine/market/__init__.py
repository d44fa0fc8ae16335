"""Bids, orders, the auction and the attempts of orders."""

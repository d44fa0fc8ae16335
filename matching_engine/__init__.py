"""The order book: orders and bids in, fills and reasons out."""

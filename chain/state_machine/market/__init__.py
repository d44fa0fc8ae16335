"""The market: bids, orders in the book, and the auction."""

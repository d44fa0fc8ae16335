"""The order book and its auction, which turns orders and bids into fills, and into reasons for unmatched orders."""

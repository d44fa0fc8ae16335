"""The consumer's library: orders, payload delivery, results."""

"""The consumer's library: orders, delivery of payloads, and results."""

"""What runs once an order is matched: attempts, shares, rounds, audits and settlement."""

"""What runs once an order is matched: legs, shares, rounds, audits and settlement."""

"""The money of an order: pure functions that compute its escrow and settlement, each with a documented rounding."""

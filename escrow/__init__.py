"""The money of an order: moves over its records as pure functions, and settlement sums with named rounding."""

"""The conversion between wire messages and domain values, in both directions."""

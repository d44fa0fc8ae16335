"""A whole network on one machine."""

"""Local networks: a whole network on one machine."""

"""Random numbers of a step."""

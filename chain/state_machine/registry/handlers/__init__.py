"""One file for each message of the registry."""

"""A user's home folder and its settings, for commands and for programs."""

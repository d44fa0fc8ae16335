"""The home of a person and its settings, for commands and programs alike."""

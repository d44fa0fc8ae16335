"""The set-up of the development environment; it uses only the standard library."""

"""Puts the development environment together; standard library only."""

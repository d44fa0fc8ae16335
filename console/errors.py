"""What the console cannot do or show."""

from domain.errors import Expected


class ConsoleError(Expected):
    """The console cannot start; the text says why."""


class NotThere(Exception):
    """There is nothing at an address: the text says why."""

"""Errors of the console."""

from domain.errors import Expected


class ConsoleError(Expected):
    """An error that the user can fix, such as a port in use or a form field that is not a number."""


class NotThere(Exception):
    """A request for something that does not exist or is not known; the text is shown on the page (HTTP status 404)."""

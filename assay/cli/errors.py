"""How a command ends: exit codes that scripts can use, and errors in one sentence without a stack trace."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    REFUSED = 1  # the reason is on stderr
    USAGE = 2
    TIMED_OUT = 3  # and how to go on is on stderr


class CliError(Exception):
    """A command that ends without success."""

    def __init__(self, message: str, code: Exit = Exit.REFUSED) -> None:
        """Keep the message for stderr and the exit code."""
        self.code = code
        super().__init__(message)

"""How a command ends without success."""

from domain.errors import Exit, Expected


class CliError(Expected):
    """A command that cannot do what it was asked for."""


class WrongUsage(CliError):
    """Arguments that make no command."""

    exit_code = Exit.USAGE


class Interrupted(CliError):
    """The person at the terminal ended it."""


class NotSettled(CliError):
    """An order that was waited for is closed, and was not settled."""

    exit_code = Exit.NOT_SETTLED


class SystemFailed(CliError):
    """The operating system refuses a file, a socket or a process."""

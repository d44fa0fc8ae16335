"""The errors that end a command."""

from domain.errors import Exit, Expected


class CliError(Expected):
    """The error of a command that cannot do what the user asked for."""


class WrongUsage(CliError):
    """The error of a command that does not accept its arguments."""

    exit_code = Exit.USAGE


class Interrupted(CliError):
    """The error of a command that the user ended with Ctrl-C or SIGTERM."""


class NotSettled(CliError):
    """The error of a command that waited for an order, if the order closed without being settled."""

    exit_code = Exit.NOT_SETTLED


class SystemFailed(CliError):
    """The error of a command that did not get a file, a socket or a process from the operating system."""

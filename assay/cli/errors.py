"""The errors with which a command ends."""

from domain.errors import Exit, Expected


class CliError(Expected):
    """A command cannot do what the user asked for."""


class WrongUsage(CliError):
    """Arguments that a command does not accept."""

    exit_code = Exit.USAGE


class Interrupted(CliError):
    """The user ended the command, with Ctrl-C or SIGTERM."""


class NotSettled(CliError):
    """An order that the command waited for closed without being settled."""

    exit_code = Exit.NOT_SETTLED


class SystemFailed(CliError):
    """The operating system refused a file, a socket or a process."""

"""How a command ends without success."""

from domain.errors import Exit, Expected


class CliError(Expected):
    """A command that ends without success: the sentence for stderr and the exit code."""

    def __init__(self, reason: str, code: Exit = Exit.REFUSED) -> None:
        """Keep both."""
        super().__init__(reason)
        self.exit_code = code

"""``assay completion``."""

import click
from click.shell_completion import get_completion_class

from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError


@click.command(
    help="Print a script for shell completion of commands and options.\n\n"
    "Put the line of the example into your shell's start-up file.\n\n"
    'Example: eval "$(assay completion bash)"'
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common_options
def command(context: CommandContext, shell: str) -> None:
    """Print the completion script for a shell."""
    from assay.cli.main import assay

    completer = get_completion_class(shell)
    if completer is None:
        raise CliError(f"{shell} is not a supported shell", "use bash, zsh or fish", field="shell")
    source = completer(assay, {}, "assay", "_ASSAY_COMPLETE").source()
    context.output.result({"shell": shell, "script": source}, source)

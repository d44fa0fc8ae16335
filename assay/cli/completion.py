"""``assay completion``."""

import click
from click.shell_completion import get_completion_class

from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError


@click.command(
    help="Print what lets a shell complete commands and options; put the line into its start-up file.\n\n"
    'Example: eval "$(assay completion bash)"'
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common_options
def command(context: CommandContext, shell: str) -> None:
    """Print the script of a shell."""
    from assay.cli.main import assay

    made = get_completion_class(shell)
    if made is None:
        raise CliError(f"{shell} is not known", "use bash, zsh or fish", field="shell")
    source = made(assay, {}, "assay", "_ASSAY_COMPLETE").source()
    context.output.result({"shell": shell, "script": source}, source)

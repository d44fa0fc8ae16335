"""The ``assay`` command: groups are imported when they are used, so that help is quick and a node needs no torch."""

import importlib
import sys

import click

from domain.errors import Exit, Expected

GROUPS = {
    "demo": "Run the whole path on this machine: network, order, training, a caught cheat, payment.",
    "version": "Show versions of Assay and what it stands on.",
    "status": "Show where the chain stands.",
    "keys": "Make, list, import and export keys.",
    "query": "Read the chain's state.",
    "tx": "Send transactions.",
    "events": "Show or follow the chain's numbered events.",
    "job": "Build, inspect and run jobs.",
    "quote": "Ask what a job would cost now, before paying.",
    "order": "Submit orders, watch them, fetch results.",
    "node": "Set up and run a node.",
    "validator": "Run a validator's daemon.",
    "bid": "Place and change standing bids.",
    "provider": "Join a cluster as a compute provider.",
    "trace": "Show and verify Proof-of-Learning traces.",
    "localnet": "Run a network of several validators on this machine.",
}


class LazyGroup(click.Group):
    """Lists all commands, imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return list(GROUPS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import ``assay.cli.<name>`` and return its ``command``."""
        if cmd_name not in GROUPS:
            return None
        module = importlib.import_module(f"assay.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List names with their one-line help, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(GROUPS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def assay() -> None:
    """Assay: a marketplace node for verified machine-learning training.

    Example: assay demo
    """


def main() -> None:
    """Run the command line."""
    sys.exit(run(assay))


def run(command: click.Command, arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; what people caused or can mend ends in one sentence on stderr.

    Anything else is a bug, and is raised.
    """
    try:
        code = command.main(arguments, standalone_mode=False)
    except click.exceptions.Abort:
        return fail("interrupted", Exit.REFUSED)
    except click.ClickException as error:
        error.show()
        return Exit.USAGE
    except Expected as error:
        return fail(str(error), error.exit_code)
    except OSError as error:
        if not error.strerror:
            raise
        where = f"{error.filename}: " if error.filename else ""
        return fail(f"{where}{error.strerror}; see to it and try again", Exit.REFUSED)
    return code if isinstance(code, int) else Exit.DONE


def fail(message: str, code: Exit) -> Exit:
    """Say on stderr why the command failed."""
    click.echo(f"error: {message}", err=True)
    return code

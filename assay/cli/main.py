"""The ``assay`` command: groups are imported when they are used, so that help is quick and a node needs no torch."""

import importlib
import sys

import click

from assay.cli.errors import CliError, Exit

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


# By name, so that a failing command does not import what it never used.
TIMEOUTS = {"chain.client.errors.ChainTimeout", "consumer.errors.StillWaiting"}
REFUSALS = {
    "chain.client.errors.ChainError",
    "chain.client.keyring.KeyringError",
    "domain.errors.Refusal",
    "link.errors.ClusterError",
    "link.handover.HandoverError",
    "compute_provider.config.ProviderError",
    "consumer.errors.ConsumerError",
    "localnet.network.NetworkError",
    "pol.executor.errors.ExecutionError",
    "pol.job.errors.JobError",
    "pol.work.pool.PoolError",
    "pol.work.records.ReplayError",
    "pol.state.errors.StateError",
    "pol.tracing.rules.Unsupported",
    "validator.store.StoreError",
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
    """Run the command line; expected failures end with one sentence and an exit code, never a stack trace."""
    try:
        code = assay.main(standalone_mode=False)
    except click.exceptions.Abort:
        code = fail("interrupted", Exit.REFUSED)
    except click.ClickException as error:
        error.show()
        code = Exit.USAGE
    except CliError as error:
        code = fail(str(error), error.code)
    except Exception as error:  # noqa: BLE001 — sorted below; what is not expected is raised again
        code = _expected(error)
    sys.exit(int(code) if isinstance(code, int) else 0)


def fail(message: str, code: Exit) -> Exit:
    """Say on stderr why the command failed."""
    click.echo(f"error: {message}", err=True)
    return code


def _expected(error: Exception) -> Exit:
    """Turn the errors of the libraries into exit codes; anything else is a bug and shows itself."""
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    if names & TIMEOUTS:
        return fail(str(error), Exit.TIMED_OUT)
    if names & REFUSALS:
        return fail(str(error), Exit.REFUSED)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return fail(f"{where}{error.strerror}; see to it and try again", Exit.REFUSED)
    raise error

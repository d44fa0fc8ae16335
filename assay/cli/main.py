"""The ``assay`` command. Its groups are imported on first use: help is fast, and a node does not need torch."""

import errno
import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO, TextIOWrapper
from itertools import pairwise
from threading import current_thread, main_thread

import click
from rich.text import Text

from assay.cli.context import options_before
from assay.cli.errors import CliError, Interrupted, SystemFailed, WrongUsage
from assay.cli.output import cut, stderr
from domain.errors import Exit, Expected

GROUPS = {
    "demo": "Run everything on this machine: network, orders, training, a caught cheat, payment.",
    "version": "Show the versions of Assay and its dependencies.",
    "status": "Show the state of the chain and of this home.",
    "keys": "Create, list, import and export keys.",
    "query": "Read the chain's state.",
    "tx": "Send transactions.",
    "events": "Show or follow the chain's numbered events.",
    "job": "Build, inspect and run jobs.",
    "quote": "Ask what a job would cost now, before paying.",
    "policy": "Compute whether honest work pays: gains of strategies, least bonds, bribes.",
    "order": "Submit orders, watch them, fetch results.",
    "node": "Set up and run a node.",
    "validator": "Run a validator's daemon.",
    "bid": "Place and change standing bids.",
    "provider": "Join a cluster as a compute provider.",
    "challenge": "Recompute a place of a running order, and challenge it if it is wrong.",
    "watchtower": "Recompute random places of running orders, and challenge those that are wrong.",
    "credential": "Verify the evidence of confidential machines, offline.",
    "trace": "Show and verify Proof-of-Learning traces.",
    "config": "Show the configuration of a home, with the source of each value.",
    "console": "Show the network in a browser, live and read-only.",
    "localnet": "Run a network of several validators on this machine.",
    "faucet": "Send coins of a test network to anyone who asks over HTTP.",
    "completion": "Print a script for shell completion of commands and options.",
}


_OS_REMEDIES = {
    errno.ENOSPC: "free some disk space, and try again",
    errno.EDQUOT: "free some space of the disk quota, and try again",
    errno.EACCES: "see the owner and permissions with ls -ld, or use another path",
    errno.EROFS: "use a path that is writable, for example with --home",
    errno.ENOENT: "give the path of an existing file or folder",
    errno.ENOTDIR: "give a path whose parts are folders: one part is a file",
    errno.EISDIR: "give the path of a file, not of a folder",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


_ENDING = (signal.SIGINT, signal.SIGTERM)


class LazyGroup(click.Group):
    """A group that lists all commands and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of ``GROUPS``."""
        return list(GROUPS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; for an unknown name raise NoSuchCommand with similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as unknown:
            name = unknown.command_name
            raise click.exceptions.NoSuchCommand(name, possibilities=GROUPS, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import ``assay.cli.<name>`` and return its ``command``."""
        if cmd_name not in GROUPS:
            return None
        module = importlib.import_module(f"assay.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names of the commands with their one-line help, without importing a command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(GROUPS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(package_name="assay", prog_name="assay")
@click.pass_context
@options_before
def assay(context: click.Context) -> None:
    """Assay: a marketplace node for verified machine-learning training.

    Example: assay demo
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the command that the process's arguments name, and exit with its exit code."""
    mend_streams()
    # The log lines of gRPC's core do not help users, because failed connections raise our own errors.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Whatever the umask is, only the owner and the owner's group can write files that a command creates.
    os.umask(os.umask(0) | 0o002)
    with _terminated_as_interrupted():
        code = run(assay)
    sys.exit(code)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C within this context, so that the command prints how to continue.

    A command that runs a daemon sets its own handlers.
    """
    if current_thread() is not main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def mend_streams() -> None:
    """Open the null device in place of closed standard streams, and replace characters that cannot be printed.

    Output then has a question mark in place of each character that the stream's encoding lacks.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Otherwise the next file that is opened would get this number, and the stream's output would go into that
            # file.
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def run(command: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; print an error that the user can fix as one sentence on stderr.

    With ``--output json``, print a JSON object instead of the sentence: ``{"error": {"kind", "field", "reason",
    "remedy", "exit_code"}}``. Any other exception is a bug and is raised again.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--output=json" in given or ("--output", "json") in pairwise(given)
    error: Expected
    try:
        code = command.main(given, standalone_mode=False)
    except click.exceptions.Abort as abort:
        error = _interrupted(abort)
    except click.ClickException as wrong:
        if not as_json:
            shown = StringIO()
            wrong.show(shown)
            click.echo(cut(shown.getvalue()), err=True, nl=False)
            return Exit.USAGE
        error = _wrong_usage(wrong)
    except Expected as expected:
        error = expected
    except OSError as system:
        if not system.strerror:
            raise
        where = str(system.filename or "")
        remedy = _OS_REMEDIES.get(
            system.errno or 0, "remove the cause that the operating system reported, and try again"
        )
        error = SystemFailed(system.strerror, remedy, field=where)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "torch":
            raise
        error = CliError("torch is not installed", "install assay[train] (make setup in a checkout)")
    else:
        return code if isinstance(code, int) else Exit.DONE
    with _undisturbed():
        if as_json:
            click.echo(json.dumps({"error": _plain(error)}), err=True)
        else:
            stderr.print(Text.assemble(("error:", "bold red"), cut(f" {error}")))
    return error.exit_code


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM while the last message is printed."""
    if current_thread() is not main_thread():
        yield
        return
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in _ENDING]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _interrupted(abort: BaseException) -> Interrupted:
    """Return the command's error for the first Ctrl-C, even if a second Ctrl-C came while the command was ending."""
    error: BaseException | None = abort
    while error is not None and not isinstance(error, Interrupted):
        error = error.__context__
    return error or Interrupted("interrupted")


def _wrong_usage(error: click.ClickException) -> WrongUsage:
    """Return a WrongUsage with the field, the reason and a remedy for click's error about arguments."""
    context = getattr(error, "ctx", None)
    parameter = getattr(error, "param", None)
    return WrongUsage(
        error.message or error.format_message(),
        f"see {context.command_path} --help" if context else "see assay --help",
        field=parameter.get_error_hint(context).strip("'") if parameter else "",
    )


def _plain(error: Expected) -> dict[str, object]:
    return {
        "kind": error.word,
        "field": cut(error.field),
        "reason": cut(error.reason),
        "remedy": cut(error.remedy),
        "exit_code": int(error.exit_code),
    }

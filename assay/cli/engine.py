"""The options that choose what computes, and how much of this machine it may use."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from assay.cli.arguments import SIZE, click_type
from assay.cli.errors import WrongUsage
from assay.cli.machines import MachinesShape
from assay.cli.output import size
from assay.settings.kinds import ExecutorName, GroupShape
from host.devices.device import CPU
from pol.errors import ExecutionError
from pol.executor.names import BACKENDS, DEFAULT, THREADS_MAX, Engine
from pol.work.executor import LOCAL

F = TypeVar("F", bound=Callable[..., Any])
_ALL = "one per processor, or OMP_NUM_THREADS"


def executor_option(default: str | None = LOCAL, what: str = "recomputation") -> Callable[[F], F]:
    """Add --executor to a command; a ``default`` of None means that the command reads a setting.

    ``what`` is what runs there, in words.
    """
    return click.option(
        "--executor",
        type=click_type(ExecutorName()),
        default=default,
        help=f"Where {what} runs: processes on this machine (local), or your Ray cluster.  [local]",
    )


def group_option(what: str) -> Callable[[F], F]:
    """Add --machines to a command that reads a setting. ``what`` is what a group does, in words."""
    return click.option(
        "--machines",
        type=click_type(GroupShape()),
        help=f"Let this number of nodes, or of processes here, {what}; or STAGESxROWS.  [1]",
    )


def machines_option(what: str = "recompute a segment together") -> Callable[[F], F]:
    """Add --machines to a command that reads no setting. ``what`` is what a group does, in words."""
    return click.option(
        "--machines",
        type=MachinesShape(),
        default=1,
        help=f"Let this number of nodes, or of processes here, {what}; or STAGESxROWS.  [1]",
    )


def engine_options(*, threads: str = _ALL) -> Callable[[F], F]:
    """Add --backend, --device, --threads and --memory to a command, and call it with ``engine``.

    ``threads`` is the number of threads without --threads, in words.
    """
    options = [
        click.option(
            "--backend",
            type=click.Choice(BACKENDS),
            default=DEFAULT,
            show_default=True,
            help="Implementation that computes; all of them give the same bits.",
        ),
        click.option(
            "--device",
            default=CPU,
            show_default=True,
            metavar="cpu|cuda|cuda:N",
            help="Device that computes; a GPU needs --backend torch.",
        ),
        click.option(
            "--threads",
            type=click.IntRange(1, THREADS_MAX),
            help=f"Threads of each process that computes.  [{threads}]",
        ),
        click.option(
            "--memory",
            type=SIZE,
            default=None,
            help="Most memory of each process that computes, for example 8GiB.  [three quarters of the machine]",
        ),
    ]

    def decorate(command: F) -> F:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            engine = _engine(kwargs.pop("backend"), kwargs.pop("device"), kwargs.pop("threads"), kwargs.pop("memory"))
            return command(*args, engine=engine, **kwargs)

        wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
        wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
        decorated: Any = wrapped
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _engine(name: str, device: str, threads: int | None, memory: int | None) -> Engine:
    """Return the engine that the options describe; WrongUsage if this machine cannot have it."""
    from host.devices.find import find_devices

    engine = Engine(name=name, device=device, threads=threads or 0, memory=memory or 0)
    try:
        engine.check()
    except ExecutionError as error:
        raise WrongUsage(f"--{error.field}: {error.reason}") from None
    if engine.device == CPU and not engine.memory:
        return engine
    devices = {found.name: found for found in find_devices()}
    if engine.memory > devices[CPU].memory:
        raise WrongUsage(f"--memory: this machine has {size(devices[CPU].memory)}, not {size(engine.memory)}")
    if engine.device not in devices:
        known = ", ".join(devices)
        raise WrongUsage(f"--device: this machine has no {engine.device}; it has {known}")
    return engine

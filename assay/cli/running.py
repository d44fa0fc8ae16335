"""The options that nodes and daemons share: the log, and the port for metrics."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from assay.cli.arguments import LOG_FORMAT, LOG_LEVEL, PORT_OR_NONE
from assay.cli.context import CommandContext

F = TypeVar("F", bound=Callable[..., Any])


def running_options(part: str) -> Callable[[F], F]:
    """Add --metrics-port and the log options to a command that runs until it is stopped.

    ``part`` names the command's table in ``config.toml``. The decorator sets up the log, then calls the command with
    ``metrics_port``. This decorator must be the innermost one, because it needs the command context.
    """
    options = (
        click.option(
            "--metrics-port",
            type=PORT_OR_NONE,
            help="Port on 127.0.0.1 for metrics and health.  [off]",
        ),
        click.option("--log-level", type=LOG_LEVEL, help="Lowest level that is logged.  [info]"),
        click.option(
            "--log-format",
            type=LOG_FORMAT,
            help="Plain lines (text), or one JSON object per line.  [text]",
        ),
        click.option(
            "--log-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Log to this file instead of stderr; a limited number of old files is kept.",
        ),
    )

    def decorate(command: F) -> F:
        def wrapped(context: CommandContext, *args: Any, **kwargs: Any) -> Any:
            _begin_log(context, kwargs)
            port = context.setting(f"{part}.metrics_port", kwargs.pop("metrics_port")).value
            return command(context, *args, metrics_port=port, **kwargs)

        wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
        wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
        decorated: Any = wrapped
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _begin_log(context: CommandContext, given: dict[str, Any]) -> None:
    from host.daemon import LogFormat, begin_log

    level = str(context.setting("log.level", given.pop("log_level")).value)
    form = str(context.setting("log.format", given.pop("log_format")).value)
    begin_log(level, LogFormat(form), given.pop("log_file"))

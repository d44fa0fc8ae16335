"""What nodes and daemons share on the command line: their log, and the port for their metrics."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from assay.cli.arguments import LOG_FORMAT, LOG_LEVEL, PORT_OR_NONE
from assay.cli.context import CommandContext

F = TypeVar("F", bound=Callable[..., Any])


def running_options(part: str) -> Callable[[F], F]:
    """Add --metrics-port and the options of the log to a command that runs until it is stopped.

    ``part`` is its table in ``config.toml``. The command is called with ``metrics_port`` when its log has begun; stands
    directly above the function, so that the context is there.
    """
    options = (
        click.option(
            "--metrics-port",
            type=PORT_OR_NONE,
            help="Tell metrics and health on this port of 127.0.0.1.  [off]",
        ),
        click.option("--log-level", type=LOG_LEVEL, help="The least level that is logged.  [info]"),
        click.option(
            "--log-format",
            type=LOG_FORMAT,
            help="Lines for people, or one JSON object on each line.  [text]",
        ),
        click.option(
            "--log-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Log there instead of on stderr; old files are kept up to a bound.",
        ),
    )

    def decorate(command: F) -> F:
        def wrapped(context: CommandContext, *args: Any, **kwargs: Any) -> Any:
            _begin_log(context, kwargs)
            port = context.setting(f"{part}.metrics_port", kwargs.pop("metrics_port")).value
            return command(context, *args, metrics_port=port, **kwargs)

        wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
        wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
        made: Any = wrapped
        for option in reversed(options):
            made = option(made)
        return made  # type: ignore[no-any-return]

    return decorate


def _begin_log(context: CommandContext, given: dict[str, Any]) -> None:
    from host.daemon import LogFormat, begin_log

    level = str(context.setting("log.level", given.pop("log_level")).value)
    form = str(context.setting("log.format", given.pop("log_format")).value)
    begin_log(level, LogFormat(form), given.pop("log_file"))

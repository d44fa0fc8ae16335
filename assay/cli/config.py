"""``assay config``."""

import click

from assay.cli.context import CommandContext, common_options
from assay.cli.output import table
from assay.settings.configuration import FILE, SETTINGS, Source


@click.group(help="Show the configuration of a home.")
def command() -> None:
    """Group of configuration commands."""


@command.command(
    help="""Show the value of every key of config.toml, and its source: option, environment, file or default.

    Example: assay config show
    """
)
@common_options
def show(context: CommandContext) -> None:
    """Show the value and the source of each setting of this home."""
    found = [context.setting(setting.name) for setting in SETTINGS]
    rows = [
        (
            each.setting.name,
            "-" if each.value is None else str(each.value),
            each.source.value,
            each.setting.variable if each.source is Source.ENVIRONMENT else each.setting.option,
        )
        for each in found
    ]
    context.output.result(
        {
            "home": str(context.home),
            "file": str(context.home / FILE),
            "settings": {each.setting.name: {"value": each.value, "source": each.source.value} for each in found},
        },
        [
            f"{context.home / FILE}" + ("" if (context.home / FILE).exists() else " (does not exist)"),
            table("Configuration", ("key", "value", "from", "changed by"), rows),
        ],
    )

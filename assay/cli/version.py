"""``assay version``."""

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from assay.cli.context import CommandContext, common_options
from assay.cli.output import table

PARTS = ("assay", "cosmpy", "grpcio", "protobuf", "plyvel", "coincurve", "pynacl", "numpy", "torch")


@click.command(help="Show the versions of Assay and its dependencies.\n\nExample: assay version")
@common_options
def command(context: CommandContext) -> None:
    """Print the versions of Assay and its dependencies; ``torch`` is installed only with the ``train`` extra."""
    versions = {"python": platform.python_version()}
    for part in PARTS:
        try:
            versions[part] = version(part)
        except PackageNotFoundError:
            versions[part] = "not installed"
    rows = list(versions.items())
    context.output.result(versions, table("Versions", ("part", "version"), rows))

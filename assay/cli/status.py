"""``assay status``."""

import click

from assay.cli.context import Settings, common_options
from assay.cli.output import table


@click.command(help="Show where the chain stands.\n\nExample: assay status --node 127.0.0.1:9090")
@common_options
def command(context: Settings) -> None:
    """Print chain id, height, clock and the validators."""
    from domain.queries import ValidatorsRequest

    with context.client() as client:
        status = client.status()
        validators = client.query(ValidatorsRequest()).validators
    rows = [(v.moniker, v.operator, v.stake, v.endpoint or "-") for v in validators]
    head = f"chain {status.chain_id}  height {status.height}  chain clock {status.clock} s" + (
        "  (solo: for development)" if status.solo else ""
    )
    shown = table("Validators", ("moniker", "operator", "stake", "endpoint"), rows)
    context.output.result({"status": status, "validators": validators}, [head, shown])

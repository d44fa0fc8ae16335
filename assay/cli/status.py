"""``assay status``."""

import click

from assay.cli.context import Settings, common_options
from assay.cli.output import flops, table


@click.command(help="Show where the chain stands.\n\nExample: assay status --node 127.0.0.1:9090")
@common_options
def command(context: Settings) -> None:
    """Print chain id, height, clock and the validators."""
    from domain.queries import ValidatorsRequest

    with context.client() as client:
        status = client.status()
        validators = client.query(ValidatorsRequest()).validators
    rows = [
        (
            v.moniker,
            v.operator,
            v.stake,
            f"{flops(v.audit_speed)}/s",
            v.audit_rate,
            v.endpoint or "-",
        )
        for v in validators
    ]
    head = f"chain {status.chain_id}  height {status.height}  chain clock {status.clock} s" + (
        "  (solo: for development)" if status.solo else ""
    )
    columns = ("moniker", "operator", "stake", "audit speed", "audit bytes/s", "endpoint")
    shown = table("Validators", columns, rows)
    context.output.result({"status": status, "validators": validators}, [head, shown])

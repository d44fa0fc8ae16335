"""``assay faucet``."""

import socket
import time

import click

from assay.cli.arguments import AMOUNT, DURATION, ENDPOINT
from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError
from assay.cli.output import money
from domain.measures import duration
from host.addresses import HostPort


@click.command(
    help="""Send coins of a test network to anyone who asks over HTTP, until Ctrl-C.

    The interface is that of the faucet of CosmJS: POST /credit with {"address": "assay1…", "denom": "uassay"}. Give the
    account no more coins than you would give away.

    Example: assay faucet --listen 0.0.0.0:8000 --amount 10ASSAY --daily 1000ASSAY --from faucet
    """
)
@click.option("--listen", type=ENDPOINT, default="127.0.0.1:8000", show_default=True, help="Address to listen on.")
@click.option("--amount", type=AMOUNT, default="10ASSAY", show_default=True, help="Coins for each request.")
@click.option("--wait", type=DURATION, default="1d", show_default=True, help="Time until an address may ask again.")
@click.option("--daily", type=AMOUNT, default="1000ASSAY", show_default=True, help="Most coins in a day, for all.")
@common_options
def command(context: CommandContext, listen: str, amount: int, wait: int, daily: int) -> None:
    """Run a faucet in the foreground."""
    import uvicorn

    from chain.app.rest.connections import make_config
    from domain.ledger.queries import AccountRequest
    from host.daemon import begin_log
    from localnet.faucet import Faucet, Limits

    if daily < amount:
        raise CliError(f"{money(daily)} a day are less than {money(amount)}", "give a larger --daily")
    begin_log()
    key = context.key()
    with context.client() as client:
        chain_id = client.status().chain_id
        balance = client.query(AccountRequest(key.address)).balance
        limits = Limits(amount=amount, wait=wait, daily=daily)
        faucet = Faucet(context.sender(client, key), chain_id, limits, time.monotonic)
        context.output.note(
            f"{key.address} has {money(balance)}; each address on {chain_id} gets {money(amount)} in {duration(wait)}, "
            f"at http://{listen}/credit"
        )
        address = HostPort.parse(listen)
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with socket.create_server((address.host, address.port), family=family) as listening:
            uvicorn.Server(make_config(faucet.app)).run(sockets=[listening])

"""``assay query``."""

import click

from assay.cli.arguments import ADDRESS
from assay.cli.attest import queries as attest
from assay.cli.authz import queries as authz
from assay.cli.context import CommandContext, common_options
from assay.cli.distribution import queries as distribution
from assay.cli.errors import CliError, WrongUsage
from assay.cli.feegrant import queries as feegrant
from assay.cli.gov import queries as gov
from assay.cli.output import flops, money, table
from assay.cli.slashing import queries as slashing
from assay.cli.staking_queries import queries as staking


@click.group(help="Read the chain's state.")
def command() -> None:
    """Group of queries."""


command.add_command(staking, "staking")
command.add_command(distribution, "distribution")
command.add_command(slashing, "slashing")
command.add_command(feegrant, "feegrant")
command.add_command(gov, "gov")
command.add_command(authz, "authz")
command.add_command(attest, "attest")


@command.command(help="Show an account.\n\nExample: assay query account assay1…")
@click.argument("address")
@common_options
def account(context: CommandContext, address: str) -> None:
    """Show the balance, the sequence number and the bond of an account."""
    from domain.ledger.queries import AccountRequest

    with context.client() as client:
        found = client.query(AccountRequest(address))
    rows = [
        ("address", found.account.address),
        ("balance", money(found.balance)),
        ("sequence", found.account.sequence),
        ("free bond", money(found.bond.free)),
        ("bond being withdrawn", money(sum(w.amount for w in found.bond.withdrawals))),
    ]
    context.output.result(found, table("Account", ("what", "value"), rows))


@command.command(help="Show the chain's parameters.\n\nExample: assay query params")
@common_options
def params(context: CommandContext) -> None:
    """Show all parameters of the chain."""
    from domain.codec import to_plain

    with context.client() as client:
        found = client.params()
    rows = [(component, name, value) for component, values in to_plain(found).items() for name, value in values.items()]
    context.output.result(found, table("Parameters", ("component", "name", "value"), rows))


@command.command(help="List providers.\n\nExample: assay query providers --validator assay1…")
@click.option("--validator", default="", help="Only providers in the cluster of this validator (address).")
@click.option("--address", type=ADDRESS, help="Only this provider, even if it is not admitted.")
@common_options
def providers(context: CommandContext, validator: str, address: str | None) -> None:
    """List providers with measured speed and counts of accepted and rejected shares."""
    from domain.registry.queries import ProviderRequest, ProvidersRequest

    with context.client() as client:
        if address:
            known = client.query(ProviderRequest(address)).provider
            found = tuple(filter(None, (known,)))
        else:
            found = client.query(ProvidersRequest(validator, 1000, "")).providers
    rows = [
        (
            p.address,
            p.validator or "-",
            "admitted" if p.admitted else "asking" if p.validator else "-",
            f"{flops(p.capability.speed)}/s" if p.capability else "-",
            "newcomer" if p.newcomer else "-",
            p.shares_accepted,
            p.shares_rejected,
        )
        for p in found
    ]
    columns = ("address", "cluster", "standing", "speed", "record", "accepted", "rejected")
    context.output.result(found, table("Providers", columns, rows))


@command.command(help="Show a transaction.\n\nExample: assay query tx 1A2B…")
@click.argument("hash_", metavar="HASH")
@common_options
def tx(context: CommandContext, hash_: str) -> None:
    """Show the height and the outcome of a transaction."""
    try:
        digest = bytes.fromhex(hash_)
    except ValueError:
        raise WrongUsage(f"{hash_} is not a transaction hash", "a transaction hash has 64 hex digits") from None
    with context.client() as client:
        receipt = client.tx(digest)
    if receipt is None:
        raise CliError(
            f"no block has transaction {hash_}",
            "it may still wait in the mempool (ask again after the next block), or have expired (send it again)",
        )
    outcome = "done" if receipt.code == 0 else f"refused ({receipt.codespace} {receipt.code})"
    context.output.result(receipt, f"height {receipt.height}: {outcome} {receipt.log}")

"""The genesis file of a new chain, and the command line's types for validators and accounts in this file."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import ADDRESS, AMOUNT, BEACON_KEY, FLOPS, SIZE

if TYPE_CHECKING:
    from domain.genesis import GenesisValidator

FOUNDER_COINS = 1_000_000_000_000


def found_chain(chain_id: str, validators: Sequence["GenesisValidator"], coins: Mapping[str, int]) -> bytes:
    """Return the genesis file of a new chain with these validators; raise HomeError if no chain could start from it.

    ``coins`` maps the address of each account to its amount (uassay). An operator without an entry in ``coins`` gets
    ``FOUNDER_COINS``, which is enough for bonds and fees. A chain whose id begins with ``assay-local`` has the short
    windows of a local network.
    """
    from chain.app.homes import new_genesis
    from domain.genesis import DENOM, LOCAL_PREFIX, Genesis, GenesisAccount
    from domain.ledger.records import Coin
    from domain.params import Params, local_params

    params = local_params() if chain_id.startswith(LOCAL_PREFIX) else Params()
    params = params.for_founders(len(validators))
    coins = dict.fromkeys((v.operator for v in validators), FOUNDER_COINS) | dict(coins)
    accounts = tuple(GenesisAccount(address, (Coin(DENOM, amount),)) for address, amount in coins.items())
    genesis = Genesis(
        chain_id=chain_id,
        denom=DENOM,
        params=params,
        accounts=accounts,
        validators=tuple(validators),
    )
    return new_genesis(genesis, time.time_ns())


class Founder(click.ParamType["GenesisValidator"]):
    """A validator of a new chain, in the form that its own `assay node init` prints."""

    name = "MONIKER,ADDRESS,KEY,BEACON_KEY,STAKE[,SPEED,RATE]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "GenesisValidator":
        """Return the validator; raise a usage error if the text is not in this form."""
        from domain.genesis import GenesisValidator

        parts = value.split(",")
        if len(parts) not in (5, 7):
            self.fail(f"{value!r} is not {self.name}; `assay node init` on the other machine prints it", param, ctx)
        moniker, address, key, beacon, stake, *promised = parts
        try:
            cons_key = bytes.fromhex(key)
        except ValueError:
            cons_key = b""
        if len(cons_key) != 32:
            self.fail(f"{moniker}: {key} is not a consensus key; a consensus key has 64 hex digits", param, ctx)
        beacon_key = BEACON_KEY.convert(beacon, param, ctx)
        operator = ADDRESS.convert(address, param, ctx)
        coins = AMOUNT.convert(stake, param, ctx)
        founder = GenesisValidator(
            operator=operator,
            moniker=moniker,
            cons_key=cons_key,
            beacon_key=beacon_key,
            stake=coins,
        )
        if not promised:
            return founder
        speed = FLOPS.convert(promised[0], param, ctx)
        rate = SIZE.convert(promised[1], param, ctx)
        return replace(founder, audit_speed=speed, audit_rate=rate)


class FundedAccount(click.ParamType[tuple[str, int]]):
    """An account of a new chain and its coins."""

    name = "ADDRESS=AMOUNT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return the address and its coins in uassay; raise a usage error if the text is not in this form."""
        address, _, coins = value.partition("=")
        return ADDRESS.convert(address, param, ctx), AMOUNT.convert(coins, param, ctx)


FOUNDER = Founder()
ACCOUNT = FundedAccount()

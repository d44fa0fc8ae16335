"""A new chain's founders, as people name them on the command line, and the genesis file that they start from."""

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
    """Return the genesis file of a chain of these validators; HomeError where no chain could start from it.

    Validators whose operators ``coins`` does not name get enough for bonds and fees. A chain id that begins with
    ``assay-local`` gets the short windows of a local network.
    """
    from chain.app.homes import new_genesis
    from domain.genesis import DENOM, LOCAL_PREFIX, Genesis, GenesisAccount
    from domain.ledger.records import Coin
    from domain.params import Params, local_params

    params = local_params() if chain_id.startswith(LOCAL_PREFIX) else Params()
    params = params.for_founders(len(validators))
    coins = dict.fromkeys((v.operator for v in validators), FOUNDER_COINS) | dict(coins)
    accounts = tuple(GenesisAccount(who, (Coin(DENOM, many),)) for who, many in coins.items())
    genesis = Genesis(
        chain_id=chain_id,
        denom=DENOM,
        params=params,
        accounts=accounts,
        validators=tuple(validators),
    )
    return new_genesis(genesis, time.time_ns())


class Founder(click.ParamType["GenesisValidator"]):
    """A validator of a new chain, as its own `assay node init` prints it."""

    name = "MONIKER,ADDRESS,KEY,BEACON_KEY,STAKE[,SPEED,RATE]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "GenesisValidator":
        """Return the validator, or end with wrong usage."""
        from domain.genesis import GenesisValidator

        parts = value.split(",")
        if len(parts) not in (5, 7):
            self.fail(f"write {self.name}; `assay node init` prints them", param, ctx)
        moniker, address, key, beacon, stake, *promised = parts
        try:
            cons_key = bytes.fromhex(key)
        except ValueError:
            cons_key = b""
        if len(cons_key) != 32:
            self.fail(f"{moniker}: {key} is not a consensus key; it has 64 hex digits", param, ctx)
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
        speed, rate = (
            FLOPS.convert(promised[0], param, ctx),
            SIZE.convert(promised[1], param, ctx),
        )
        return replace(founder, audit_speed=speed, audit_rate=rate)


class FundedAccount(click.ParamType[tuple[str, int]]):
    """An account of a new chain and its coins."""

    name = "ADDRESS=AMOUNT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return address and coins, or end with wrong usage."""
        address, _, coins = value.partition("=")
        return ADDRESS.convert(address, param, ctx), AMOUNT.convert(coins, param, ctx)


FOUNDER = Founder()
ACCOUNT = FundedAccount()

"""A new chain's founders, as people name them on the command line, and the genesis file that they start from."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from assay.cli.arguments import amount
from assay.cli.errors import CliError
from domain.errors import Exit

if TYPE_CHECKING:
    from domain.genesis import GenesisValidator

FOUNDER_COINS = 1_000_000_000_000


def read_founders(given: Sequence[str]) -> tuple["GenesisValidator", ...]:
    """Parse values of ``--validator``: MONIKER,ADDRESS,KEY,STAKE."""
    return tuple(_founder(text) for text in given)


def read_accounts(given: Sequence[str]) -> dict[str, int]:
    """Parse values of ``--account``: ADDRESS=AMOUNT."""
    coins: dict[str, int] = {}
    for text in given:
        address, _, value = text.partition("=")
        coins[_address(address, "--account")] = amount(value, "--account")
    return coins


def found_chain(
    chain_id: str, validators: Sequence["GenesisValidator"], coins: Mapping[str, int]
) -> bytes:
    """Return the genesis file of a chain of these validators; HomeError where no chain could start from it.

    Validators whose operators ``coins`` does not name get enough for bonds and fees. A chain id that begins with
    ``assay-local`` gets the short windows of a local network. Nobody audits himself: where there are fewer other
    validators than a round needs auditors, all of them audit.
    """
    from chain.app.homes import new_genesis
    from domain.genesis import DENOM, LOCAL_PREFIX, Genesis, GenesisAccount
    from domain.params import Params, local_params
    from domain.records import Coin

    params = local_params() if chain_id.startswith(LOCAL_PREFIX) else Params()
    params = replace(params, auditors=min(params.auditors, len(validators) - 1))
    coins = dict.fromkeys((v.operator for v in validators), FOUNDER_COINS) | dict(coins)
    accounts = tuple(GenesisAccount(who, (Coin(DENOM, many),)) for who, many in coins.items())
    genesis = Genesis(chain_id, DENOM, params, accounts, tuple(validators))
    return new_genesis(genesis, time.time_ns())


def _founder(text: str) -> "GenesisValidator":
    from domain.genesis import GenesisValidator

    parts = text.split(",")
    if len(parts) != 4:
        raise CliError(
            f"--validator {text}: write MONIKER,ADDRESS,KEY,STAKE; `assay node init` prints them",
            Exit.USAGE,
        )
    moniker, address, key, stake = parts
    try:
        cons_key = bytes.fromhex(key)
    except ValueError:
        cons_key = b""
    if len(cons_key) != 32:
        raise CliError(
            f"--validator {moniker}: {key} is not a consensus key; it has 64 hex digits", Exit.USAGE
        )
    return GenesisValidator(
        _address(address, "--validator"), moniker, cons_key, amount(stake, "--validator")
    )


def _address(text: str, option: str) -> str:
    from domain.errors import Refusal
    from wire.address import check_address

    try:
        check_address(text, option)
    except Refusal as refusal:
        raise CliError(str(refusal), Exit.USAGE) from None
    return text

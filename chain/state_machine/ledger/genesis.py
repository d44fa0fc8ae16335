"""The ledger's part of the first state: the counts of all pots, and the accounts with their coins."""

from chain.state_machine.genesis import check_genesis
from chain.state_machine.ledger.balances import add_coins, ensure_account, is_module
from chain.state_machine.ledger.tables import BALANCES, NEXT_ACCOUNT, POTS, SUPPLY
from chain.state_machine.store import Overlay
from domain.amount import MONEY_MAX
from domain.block import ValidatorUpdate
from domain.genesis import Genesis
from domain.ledger.moves import ACCOUNTS_POT
from domain.moves import Pot
from domain.vocabulary import POTS as ALL_POTS


def write_ledger(overlay: Overlay, genesis: Genesis) -> tuple[ValidatorUpdate, ...]:
    """Write all counts and the accounts with their coins; refuse a genesis with too many coins or a pot's address."""
    NEXT_ACCOUNT.set(overlay, 0)
    SUPPLY.set(overlay, 0)
    for name in ALL_POTS:
        POTS.set(overlay, 0, name)
    for account in genesis.accounts:
        check_genesis(not is_module(account.address), "accounts", f"{account.address} is reserved for a module")
        for coin in account.coins:
            known = coin.denom == genesis.denom
            check_genesis(known, "accounts.coins", f"{coin.denom} must be {genesis.denom}")
            _add_coins(overlay, account.address, genesis.denom, coin.amount)
    return ()


def mint(overlay: Overlay, pot: Pot, amount: int) -> None:
    """Add new coins to the counts; refuse a supply above ``MONEY_MAX``, so that no balance can exceed it."""
    add_coins(overlay, pot, amount)
    supply = SUPPLY.get(overlay)
    check_genesis(supply <= MONEY_MAX, "genesis", f"has more than {MONEY_MAX} coins in all")


def _add_coins(overlay: Overlay, address: str, denom: str, amount: int) -> None:
    ensure_account(overlay, address)
    BALANCES.set(overlay, BALANCES.get(overlay, address, denom) + amount, address, denom)
    mint(overlay, ACCOUNTS_POT, amount)

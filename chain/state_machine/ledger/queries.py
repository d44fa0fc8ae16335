"""Answers about accounts and coins."""

from collections.abc import Mapping
from types import MappingProxyType

from chain.state_machine.component import Answer
from chain.state_machine.context import HEAD
from chain.state_machine.ledger.tables import (
    ACCOUNTS,
    BALANCES,
    SUPPLY,
    get_bond_account,
)
from chain.state_machine.store import Overlay, Reader
from domain.errors import NOT_FOUND, Refusal
from domain.ledger.queries import AccountRequest, AccountResponse
from domain.ledger.records import Account, Coin


def get_account(reader: Reader, address: str) -> Account | None:
    """Return an account, or None."""
    return ACCOUNTS.get(Overlay(reader), address)


def get_balance(reader: Reader, address: str, denom: str) -> int:
    """Return a balance; 0 for an unknown address or denomination."""
    return BALANCES.get(Overlay(reader), address, denom)


def get_balances(reader: Reader, address: str) -> tuple[Coin, ...]:
    """Return all balances above 0 of an address, by denomination."""
    balances = BALANCES.scan(Overlay(reader), address)
    return tuple(Coin(denom.decode(), amount) for (_, denom), amount in balances if amount)


def get_supply(reader: Reader) -> Coin:
    """Return the supply: all coins that exist, including burnt ones."""
    store = Overlay(reader)
    return Coin(HEAD.must(store).denom, SUPPLY.get(store))


def _account(store: Overlay, request: AccountRequest) -> AccountResponse:
    address = request.address
    account = ACCOUNTS.get(store, address)
    if account is None:
        reason = f"account {address} not found"
        raise Refusal(NOT_FOUND, "address", reason, "an account exists once coins were sent to it")
    balance = BALANCES.get(store, address, HEAD.must(store).denom)
    return AccountResponse(account, balance, get_bond_account(store, address))


ANSWERS: Mapping[type, Answer] = MappingProxyType(
    {
        AccountRequest: _account,
    }
)

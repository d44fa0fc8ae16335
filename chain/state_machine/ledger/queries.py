"""Answers about accounts and their coins."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from chain.state_machine.context import HEAD
from chain.state_machine.ledger.tables import ACCOUNTS, BALANCES, get_bond_account
from chain.state_machine.store import Overlay, Reader
from domain import queries as q
from domain.errors import NOT_FOUND, Refusal
from domain.records import Account, Coin


def get_account(reader: Reader, address: str) -> Account | None:
    """Return an account, or None."""
    return ACCOUNTS.get(Overlay(reader), address)


def get_balance(reader: Reader, address: str, denom: str) -> int:
    """Return a balance; 0 for what is not known."""
    return BALANCES.get(Overlay(reader), address, denom)


def get_balances(reader: Reader, address: str) -> tuple[Coin, ...]:
    """Return all balances above 0 of an address, by denomination."""
    found = BALANCES.scan(Overlay(reader), address)
    return tuple(Coin(denom.decode(), amount) for (_, denom), amount in found if amount)


def _account(store: Overlay, request: q.AccountRequest) -> q.AccountResponse:
    address = request.address
    account = ACCOUNTS.get(store, address)
    if account is None:
        reason = f"account {address} not found"
        raise Refusal(NOT_FOUND, "address", reason, "an account exists once coins were sent to it")
    balance = BALANCES.get(store, address, HEAD.must(store).denom)
    return q.AccountResponse(account, balance, get_bond_account(store, address))


ANSWERS: Mapping[type, Callable[[Overlay, Any], Any]] = MappingProxyType(
    {q.AccountRequest: _account}
)

"""Queries that the ledger component answers."""

from dataclasses import dataclass

from domain.bounds import Address, Money
from domain.ledger.records import Account, BondAccount
from domain.queries import Query


@dataclass(frozen=True, slots=True)
class AccountResponse:
    """The account, balance and bond account.

    Example::

        found = network.client.account(network.key.address)
        print(found.balance, found.bond.free)
    """

    account: Account
    balance: Money
    bond: BondAccount


@dataclass(frozen=True, slots=True)
class AccountRequest(Query[AccountResponse]):
    """An account with its balance in ``uassay`` and its bond account."""

    address: Address

"""Queries that the ledger component answers."""

from dataclasses import dataclass

from domain.bounds import Address, Money
from domain.ledger.records import Account, BondAccount
from domain.queries import Query
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class AccountResponse(Readable):
    """An account, its balance in ``uassay`` and its bond account.

    Example::

        account = network.client.account(network.key.address)
        print(account.balance, account.bond.free)
    """

    account: Account
    balance: Money
    bond: BondAccount


@dataclass(frozen=True, slots=True)
class AccountRequest(Query[AccountResponse]):
    """A request for an account, its balance and its bond account."""

    address: Address

"""Typed views of the state: a table for each kind of record, with the key that belongs to it."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Generic, TypeVar

from chain.state_machine import keys
from chain.state_machine.internal import Head, Load, Sweep, Tally
from chain.state_machine.keys import Part
from chain.state_machine.store import Overlay
from domain.errors import NOT_FOUND, Refusal
from domain.params import Params
from domain.records import (
    Account,
    Assignment,
    Audit,
    Bid,
    BondAccount,
    BondRow,
    Escrow,
    Lot,
    Order,
    Payment,
    Provider,
    Report,
    Round,
    Share,
    Validator,
)

R = TypeVar("R")

PRESENT = b"1"  # the value of a key that only marks something


class Table(Generic[R]):
    """All records of one kind."""

    def __init__(
        self,
        name: str,
        cls: type[R],
        key: Callable[..., bytes],
        parts: Callable[[R], Iterable[Part]],
    ) -> None:
        """``key`` makes a key from parts, ``parts`` takes them from a record."""
        self.name = name
        self._cls = cls
        self._key = key
        self._parts = parts

    def get(self, store: Overlay, *parts: Part) -> R | None:
        """Return the record, or None."""
        return store.record(self._cls, self._key(*parts))

    def need(self, store: Overlay, *parts: Part) -> R:
        """Return the record that a message names; Refusal(NOT_FOUND) where there is none."""
        record = store.record(self._cls, self._key(*parts))
        if record is None:
            raise Refusal(NOT_FOUND, self.name, f"there is no such {self.name}", "check its name")
        return record

    def must(self, store: Overlay, *parts: Part) -> R:
        """Return the record that the state itself names; its absence is a bug."""
        record = store.record(self._cls, self._key(*parts))
        if record is None:
            raise LookupError(f"the state names a {self.name} that is not there: {parts}")
        return record

    def put(self, store: Overlay, record: R) -> None:
        """Store the record under its key."""
        store.put(self._key(*self._parts(record)), record)

    def delete(self, store: Overlay, *parts: Part) -> None:
        """Remove the record."""
        store.delete(self._key(*parts))

    def scan(
        self, store: Overlay, *parts: Part, after: bytes = b"", limit: int | None = None
    ) -> list[R]:
        """Return the records whose keys start with ``parts``, in key order, behind the key ``after``."""
        found = store.scan_records(self._cls, self._key(*parts), after)
        return [record for _, record in islice(found, limit)]

    def key(self, *parts: Part) -> bytes:
        """Return the key of a record, to scan behind it."""
        return self._key(*parts)


HEAD = Table("head", Head, keys.head, lambda _: ())
PARAMS = Table("params", Params, keys.params, lambda _: ())
SWEEP = Table("sweep", Sweep, keys.sweep, lambda _: ())
ACCOUNTS = Table("account", Account, keys.account, lambda r: (r.address,))
BOND_ACCOUNTS = Table("bond account", BondAccount, keys.bond_account, lambda r: (r.owner,))
VALIDATORS = Table("validator", Validator, keys.validator, lambda r: (r.operator,))
LOADS = Table("load", Load, keys.load, lambda r: (r.validator,))
PROVIDERS = Table("provider", Provider, keys.provider, lambda r: (r.address,))
BIDS = Table("bid", Bid, keys.bid, lambda r: (r.id,))
ORDERS = Table("order", Order, keys.order, lambda r: (r.id,))
TALLIES = Table("tally", Tally, keys.tally, lambda r: (r.order_id,))
ASSIGNMENTS = Table("assignment", Assignment, keys.assignment, lambda r: (r.order_id, r.attempt))
SHARES = Table("share", Share, keys.share, lambda r: r.claim.key)
ROUNDS = Table("round", Round, keys.round_, lambda r: r.key)
AUDITS = Table("audit", Audit, keys.audit, lambda r: r.key)
LOTS = Table("lot", Lot, keys.lot, lambda r: (r.purpose, r.id))
REPORTS = Table("report", Report, keys.report, lambda r: r.key)
ESCROWS = Table("escrow", Escrow, keys.escrow, lambda r: (r.order_id,))
PAYMENTS = Table("payment", Payment, keys.payment, lambda _: ())  # numbered: see money.py
BOND_ROWS = Table(
    "bond", BondRow, keys.bond_row, lambda _: ()
)  # the order is not in the row: see money.py


def get_number(store: Overlay, key: bytes) -> int:
    """Return the integer at ``key``, 0 where there is none."""
    return store.record(int, key) or 0


def get_balance(store: Overlay, address: str, denom: str) -> int:
    """Return a balance."""
    return store.record(int, keys.balance(address, denom)) or 0


def get_bond_account(store: Overlay, owner: str) -> BondAccount:
    """Return a bond account; whoever never deposited has an empty one."""
    return BOND_ACCOUNTS.get(store, owner) or BondAccount(owner, 0, ())


def get_load(store: Overlay, validator: str) -> Load:
    """Return what a validator's live assignments take."""
    return LOADS.get(store, validator) or Load(validator, 0, 0)


def get_validators(store: Overlay) -> list[Validator]:
    """Return all validators by operator address."""
    return VALIDATORS.scan(store)


def get_operator(store: Overlay, cons_address: bytes) -> str:
    """Return the operator of a consensus address, or an empty string."""
    found = store.get(keys.consensus(cons_address))
    return "" if found is None else found.decode()


def in_cluster(store: Overlay, provider: str, validator: str) -> bool:
    """Tell whether ``provider`` is in the cluster of ``validator``."""
    return store.get(keys.cluster(validator, provider)) is not None


def mark(store: Overlay, key: bytes) -> None:
    """Set a key that only marks something."""
    store.put(key, PRESENT)


def number_of(part: bytes) -> int:
    """Return the integer of a key's part."""
    return int.from_bytes(part, "big")

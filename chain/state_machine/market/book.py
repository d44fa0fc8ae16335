"""The order book: its rows, its index in memory between blocks, and the changes after which the auction tries again."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from chain.state_machine.context import HEAD, Context
from chain.state_machine.ledger.order_money import cut_bond
from chain.state_machine.ledger.tables import BOND_ACCOUNTS, get_bond_account
from chain.state_machine.market.tables import BID_DUE, BIDS, BIDS_OF, LOADS, SWEEP, Sweep, get_load
from chain.state_machine.queue import QueueEntry, cancel
from chain.state_machine.registry.members import may_serve
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay, Reader
from chain.state_machine.tables import parts_of
from domain.amount import price_ceil
from domain.errors import DEADLINE_PASSED, NOT_YOURS, Refusal
from domain.ledger.moves import BOND_RETURN
from domain.ledger.records import BondRow
from domain.market.events import BidClosed
from domain.market.records import Bid, Offer
from domain.moves import Transfer
from matching_engine.book import Backing, Book
from matching_engine.records import StandingBid

STEPS_KEPT = 1_024
"""Largest number of commits that a living book stores. If the book has to catch up with more commits, it is built from
the state again.
"""

KEYS_KEPT = 262_144
"""Most changed keys in the commits that a living book stores. If there are more, the commits are dropped, and the book
is built again."""

WORDS_KEPT = 262_144
"""Most values that bids share, such as names of regions, for which a living book stores one object each."""

_SOURCES = (BIDS, VALIDATORS, LOADS, BOND_ACCOUNTS)
"""The tables from which a row of the book is made. The key of each of them is the validator, except for bids."""
_PREFIXES = tuple(table.prefix for table in _SOURCES)


# --- rows of the book ------------------------------------------------------------------------------


def get_standing(store: Overlay) -> list[StandingBid]:
    """Return all bids, with the capacity, bond and stake that their validators have free."""
    return _get_standing(store, {})


def _get_standing(store: Overlay, words: dict[Any, Any]) -> list[StandingBid]:
    backings: dict[str, Backing] = {}
    rows = []
    for bid in BIDS.scan(store):
        backing = backings.get(bid.validator)
        if backing is None:
            backing = backings[bid.validator] = get_backing(store, bid.validator)
        rows.append(_standing(bid, backing, words))
    return rows


def _standing(bid: Bid, backing: Backing, words: dict[Any, Any]) -> StandingBid:
    """Return the row of the book for a bid.

    ``words`` has one object for each value that many bids share, which saves memory.
    """
    offer, share = bid.offer, words.setdefault
    free = bid.free
    jailed, free_bond, free_stake, worsened_height = backing
    return StandingBid(
        bid=Bid(
            id=bid.id,
            validator=share(bid.validator, bid.validator),
            offer=Offer(
                price=offer.price,
                slot_speed=offer.slot_speed,
                slots=offer.slots,
                device_class=share(offer.device_class, offer.device_class),
                memory=share(offer.memory, offer.memory),
                regions=share(offer.regions, offer.regions),
                tiers=share(offer.tiers, offer.tiers),
                min_work=offer.min_work,
                max_work=offer.max_work,
                providers_bps=share(offer.providers_bps, offer.providers_bps),
                max_payload=offer.max_payload,
                max_job_bond=offer.max_job_bond,
            ),
            capacity=bid.capacity,
            expires_at=bid.expires_at,
            placed_height=share(bid.placed_height, bid.placed_height),
            reserved=bid.reserved,
        ),
        jailed=jailed,
        # A bid without sold capacity uses one object for both values.
        free_capacity=bid.capacity if free == bid.capacity else free,
        free_bond=free_bond,
        free_stake=free_stake,
        worsened_height=worsened_height,
    )


def get_backing(store: Overlay, operator: str) -> Backing:
    """Return a validator's backing: whether it gets no matches, its free bond and stake, and its last worsened bid.

    The auction never sells more value than a validator's free stake, whatever capacity its bids have. But after a cut,
    the stake may be below the value of the live legs. The free stake is then 0.
    """
    validator = VALIDATORS.must(store, operator)
    load = get_load(store, operator)
    free_bond, free_stake = (
        get_bond_account(store, operator).free,
        max(0, validator.stake - load.value - load.slash),
    )
    return not may_serve(validator), free_bond, free_stake, load.worsened_height


# --- between blocks --------------------------------------------------------------------------------


class Version(NamedTuple):
    """The version of a committed state: its height, and the hash of its last block."""

    height: int
    hash: bytes


def version_of(reader: Reader) -> Version:
    """Return the version of a committed state."""
    head = HEAD.must(Overlay(reader))
    return Version(head.height, head.last_hash)


@dataclass(frozen=True, slots=True)
class BookStep:
    """The data of a commit that the book needs: the versions before and after it, and the changed keys."""

    before: Version
    after: Version
    keys: tuple[bytes, ...]


def book_step(before: Version, after: Version, changes: Iterable[bytes]) -> BookStep:
    """Return the step of a commit that changed the keys ``changes``."""
    return BookStep(before, after, tuple([key for key in changes if key[0] in _PREFIXES]))


class LivingBook:
    """The order book that a node keeps in memory between blocks. Equal states give equal books.

    The first call of :meth:`at` builds it from the state. Later calls only read the rows that commits or the caller's
    overlay changed; :meth:`follow` must get every commit. Rows that were read from an overlay are read again in the
    next call, because the overlay may be dropped. If the stored commits do not connect the book's version with the
    requested one, the book is built again.
    """

    def __init__(self) -> None:
        """Start without a book."""
        self._book = Book()
        self._words: dict[Any, Any] = {}
        self._version: Version | None = None
        self._unsure: dict[bytes, None] = {}
        self._steps: deque[BookStep] = deque(maxlen=STEPS_KEPT)

    def follow(self, step: BookStep) -> None:
        """Store the step of a commit. Another thread may call :meth:`at` at the same time."""
        self._steps.append(step)
        if sum(len(kept.keys) for kept in list(self._steps)) > KEYS_KEPT:
            self._steps.clear()

    def at(self, store: Overlay, version: Version) -> Book:
        """Return the book of ``store``, an overlay over the committed state of ``version``.

        The book is valid until the next call. A caller that changes it must restore it.
        """
        known = self._catch_up(version)
        # If the update fails, the next call builds the book again.
        self._version = None
        changed = [key for table in _SOURCES for key in store.changed_keys(table.key())]
        if known:
            if len(self._words) > WORDS_KEPT:
                self._words = {}
            _read_again(self._book, store, [*self._unsure, *changed], self._words)
        else:
            self._words = {}
            self._book = Book(_get_standing(store, self._words))
        self._unsure = dict.fromkeys(changed)
        self._version = version
        return self._book

    def _catch_up(self, version: Version) -> bool:
        """Apply the stored commits until the book has ``version``; return False if they do not lead to it."""
        while self._version != version:
            try:
                step = self._steps.popleft()
            except IndexError:
                return False
            if step.before == self._version:
                self._version = step.after
                self._unsure.update(dict.fromkeys(step.keys))
        return True


def _read_again(book: Book, store: Overlay, changed: Iterable[bytes], words: dict[Any, Any]) -> None:
    """Read again the rows that depend on the keys ``changed``: first the rows of validators, then the rows of bids."""
    bids: dict[bytes, None] = {}
    validators: dict[str, None] = {}
    for key in changed:
        (name,) = parts_of(key)
        if key[0] == BIDS.prefix:
            bids[name] = None
        else:
            validators[name.decode()] = None
    for operator in validators:
        if book.backing(operator):
            book.set_backing(operator, get_backing(store, operator))
    for bid_id in bids:
        bid = BIDS.get(store, bid_id)
        if bid is None:
            book.remove(bid_id)
        else:
            backing = book.backing(bid.validator) or get_backing(store, bid.validator)
            book.put(_standing(bid, backing, words))


# --- orders to try again ---------------------------------------------------------------------------


def mark_book_changed(ctx: Context, price: int) -> None:
    """Let the auction try again the open orders whose limit is at least ``price``, because a bid with this price can
    now take more orders.
    """
    sweep = SWEEP.get(ctx.store)
    if sweep is None:
        SWEEP.put(ctx.store, Sweep(price, again=0))
    elif sweep.order_id:
        # The sweep has begun, so it must run again for this change. A sweep that has not begun will include the change.
        SWEEP.update(ctx.store, again=min(sweep.again or price, price))
    else:
        SWEEP.update(ctx.store, price=min(sweep.price, price))


def mark_if_bidder(ctx: Context, owner: str) -> None:
    """Let the auction try open orders again if ``owner`` has bids. More bond or stake can now back these bids."""
    # Most owners are not validators, and this check avoids a scan of bids.
    if VALIDATORS.get(ctx.store, owner) is None:
        return
    bids = (BIDS.must(ctx.store, bid_id) for _, bid_id in BIDS_OF.keys(ctx.store, owner))
    price = min((bid.offer.price for bid in bids), default=0)
    if price:
        mark_book_changed(ctx, price)


def return_bond(ctx: Context, order_id: bytes, row: BondRow, kept: int = 0) -> None:
    """Return a bond, except for an amount (uassay) that is ``kept``, to its owner's bond account, where it may back
    other orders.
    """
    back = Transfer(move=BOND_RETURN, source=order_id.hex(), target=row.owner, amount=max(0, row.amount - kept))
    cut_bond(ctx, order_id, row, (back,))
    mark_if_bidder(ctx, row.owner)


# --- capacity ------------------------------------------------------------------------------------


def reserve(ctx: Context, bid_id: bytes, validator: str, work: int, price: int) -> None:
    """Reserve capacity of a bid and stake of its validator for ``work`` (FLOPs) that was sold at ``price``."""
    bid = BIDS.must(ctx.store, bid_id)
    BIDS.update(ctx.store, bid_id, reserved=bid.reserved + work)
    _add_load(ctx, validator, work, price_ceil(work, price))


def release_capacity(ctx: Context, bid_id: bytes, validator: str, work: int) -> None:
    """Release reserved capacity; its bid may no longer be in the book. The stake stays reserved."""
    _add_load(ctx, validator, -work, 0)
    bid = BIDS.get(ctx.store, bid_id)
    if bid is not None:
        BIDS.update(ctx.store, bid.id, reserved=bid.reserved - work)
    mark_if_bidder(ctx, validator)


def release_stake(ctx: Context, validator: str, work: int, price: int) -> None:
    """Release the stake that was reserved for ``work`` (FLOPs) sold at ``price``."""
    _add_load(ctx, validator, 0, -price_ceil(work, price))
    mark_if_bidder(ctx, validator)


def get_reserved_stake(ctx: Context, validator: str) -> int:
    """Return the stake that backs a validator's legs, and that votes on slashes may take."""
    load = get_load(ctx.store, validator)
    return load.value + load.slash


def on_backing(ctx: Context, validator: str, before: int, after: int) -> None:
    """Let the auction try open orders again if a validator's stake grew."""
    if after > before:
        mark_if_bidder(ctx, validator)


def reserve_slash(ctx: Context, validator: str, amount: int) -> None:
    """Reserve stake that a vote on a slash may take."""
    load = get_load(ctx.store, validator)
    LOADS.put(ctx.store, replace(load, slash=load.slash + amount))


def release_slash(ctx: Context, validator: str, amount: int) -> None:
    """Release stake that was reserved for a vote on a slash, because the vote is over."""
    reserve_slash(ctx, validator, -amount)
    mark_if_bidder(ctx, validator)


def _add_load(ctx: Context, validator: str, work: int, value: int) -> None:
    load = get_load(ctx.store, validator)
    LOADS.put(ctx.store, replace(load, work=load.work + work, value=load.value + value))


# --- bids ----------------------------------------------------------------------------------------


def get_own_bid(ctx: Context, bid_id: bytes, validator: str) -> Bid:
    """Return the bid that a validator names; refuse a bid of another validator, and a bid that has expired."""
    bid = BIDS.need(ctx.store, bid_id)
    if bid.validator != validator:
        raise Refusal(NOT_YOURS, "bid_id", "is another validator's bid", "use the id of one of your bids")
    if ctx.clock >= bid.expires_at:
        raise Refusal(DEADLINE_PASSED, "bid_id", "the bid has expired", "place a new bid")
    return bid


def mark_worsened(ctx: Context, validator: str) -> None:
    """Record the height at which a validator withdrew or worsened a bid.

    Orders opened until then cannot take its bids.
    """
    load = get_load(ctx.store, validator)
    LOADS.put(ctx.store, replace(load, worsened_height=ctx.height))


def close_bid(ctx: Context, bid: Bid, reason: str) -> None:
    """Remove a bid from the book. The legs that the bid has won continue."""
    BIDS.delete(ctx.store, bid.id)
    BIDS_OF.delete(ctx.store, bid.validator, bid.id)
    cancel(ctx, bid.expires_at, BID_DUE, bid.id)
    ctx.emit(BidClosed(bid.id, bid.validator, reason))


def on_bid(ctx: Context, entry: QueueEntry) -> None:
    """Remove an expired bid from the book."""
    bid = BIDS.get(ctx.store, entry.parts[0])
    if bid is not None and ctx.clock >= bid.expires_at:
        close_bid(ctx, bid, "expired")

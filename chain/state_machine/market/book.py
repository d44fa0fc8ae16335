"""The order book: what stands in it, how it lives between blocks, and what makes the auction look at it all again."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from chain.state_machine.context import HEAD, Context
from chain.state_machine.ledger.order_money import pay_from_bond, remove_bond
from chain.state_machine.ledger.tables import BOND_ACCOUNTS, get_bond_account
from chain.state_machine.market.tables import BID_DUE, BIDS, BIDS_OF, LOADS, SWEEP, Sweep, get_load
from chain.state_machine.queue import QueueEntry, cancel
from chain.state_machine.registry.members import is_active
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
from matching_engine.records import Standing

STEPS_KEPT, KEYS_KEPT = 1_024, 262_144
"""Blocks that a living book may lie behind, and keys that they may have changed; else it is derived from the state."""

WORDS_KEPT = 262_144
"""Values that bids share, like names of regions, of which a living book has one object each."""

_SOURCES = (BIDS, VALIDATORS, LOADS, BOND_ACCOUNTS)
"""What a row of the book is made of; all but bids by the validator."""
_PREFIXES = tuple(table.prefix for table in _SOURCES)


# --- what stands -----------------------------------------------------------------------------------


def get_standing(store: Overlay) -> list[Standing]:
    """Return all bids with what their validators can still give."""
    return _get_standing(store, {})


def _get_standing(store: Overlay, words: dict[Any, Any]) -> list[Standing]:
    backings: dict[str, Backing] = {}
    rows = []
    for bid in BIDS.scan(store):
        backing = backings.get(bid.validator)
        if backing is None:
            backing = backings[bid.validator] = get_backing(store, bid.validator)
        rows.append(_standing(bid, backing, words))
    return rows


def _standing(bid: Bid, backing: Backing, words: dict[Any, Any]) -> Standing:
    """Return a row of the book; ``words`` has one object for what many bids say."""
    offer, share = bid.offer, words.setdefault
    free = bid.free
    jailed, free_bond, free_stake, worsened_height = backing
    return Standing(
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
        # Of a bid of which nothing is sold, the two are one object.
        free_capacity=bid.capacity if free == bid.capacity else free,
        free_bond=free_bond,
        free_stake=free_stake,
        worsened_height=worsened_height,
    )


def get_backing(store: Overlay, operator: str) -> Backing:
    """Return whether a validator is jailed (or not in the set), its free bond and stake, and how firm its bids are.

    What its live legs are worth never exceeds its stake, whatever capacity its bids name; a stake that was cut
    may be below what it already backs.
    """
    validator = VALIDATORS.must(store, operator)
    load = get_load(store, operator)
    free_bond, free_stake = (
        get_bond_account(store, operator).free,
        max(0, validator.stake - load.value),
    )
    return not is_active(validator), free_bond, free_stake, load.worsened_height


# --- between blocks --------------------------------------------------------------------------------


class Version(NamedTuple):
    """Names a committed state: its height, and the hash of the block that left it."""

    height: int
    hash: bytes


def version_of(reader: Reader) -> Version:
    """Return the version of a committed state."""
    head = HEAD.must(Overlay(reader))
    return Version(head.height, head.last_hash)


@dataclass(frozen=True, slots=True)
class BookStep:
    """A commit as the book sees it: from which state to which, and the keys that changed of those it is made of."""

    before: Version
    after: Version
    keys: tuple[bytes, ...]


def book_step(before: Version, after: Version, changes: Iterable[bytes]) -> BookStep:
    """Return the step of a commit that changed ``changes`` of the state's keys."""
    return BookStep(before, after, tuple([key for key in changes if key[0] in _PREFIXES]))


class LivingBook:
    """An index over the state, not a part of it: the same state gives the same book, however it came about.

    It is derived from the state when it is asked first. From then on it reads again only what a commit (which it has to
    be told) or the asker's overlay changed. What it read from an overlay it will read once more, because the overlay
    may be dropped. Asked for a state that its steps do not lead to, it is derived anew.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._book = Book()
        self._words: dict[Any, Any] = {}
        self._version: Version | None = None
        self._unsure: dict[bytes, None] = {}
        self._steps: deque[BookStep] = deque(maxlen=STEPS_KEPT)

    def follow(self, step: BookStep) -> None:
        """Take note of a commit; safe while another thread asks."""
        self._steps.append(step)
        if sum(len(kept.keys) for kept in list(self._steps)) > KEYS_KEPT:
            self._steps.clear()

    def at(self, store: Overlay, version: Version) -> Book:
        """Return the book as it stands in ``store``, which lies over the committed state of ``version``.

        It is valid until the next call, and whoever changes it puts it back as it was.
        """
        known = self._catch_up(version)
        # Should this fail, the next call begins anew.
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
        """Go the steps to ``version``, and tell whether they lead there."""
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
    """Bring the rows up to date that are made of what is stored under ``changed``: validators first, then bids."""
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
            book.back(operator, get_backing(store, operator))
    for bid_id in bids:
        bid = BIDS.get(store, bid_id)
        if bid is None:
            book.remove(bid_id)
        else:
            backing = book.backing(bid.validator) or get_backing(store, bid.validator)
            book.put(_standing(bid, backing, words))


# --- what is tried again ---------------------------------------------------------------------------


def mark_book_changed(ctx: Context, price: int) -> None:
    """Let the auction try every open order again that would pay ``price``: such a bid changed, or has more room."""
    sweep = SWEEP.get(ctx.store)
    if sweep is None:
        SWEEP.put(ctx.store, Sweep(price, again=0))
    elif sweep.order_id:
        # It is under way; one that has not begun will see this change too.
        SWEEP.update(ctx.store, again=min(sweep.again or price, price))
    else:
        SWEEP.update(ctx.store, price=min(sweep.price, price))


def mark_if_bidder(ctx: Context, owner: str) -> None:
    """Let the auction try again what the bids of a validator are for, which can give more than before."""
    # Nearly everybody is none, and is told apart without a scan.
    if VALIDATORS.get(ctx.store, owner) is None:
        return
    bids = (BIDS.must(ctx.store, bid_id) for _, bid_id in BIDS_OF.keys(ctx.store, owner))
    price = min((bid.offer.price for bid in bids), default=0)
    if price:
        mark_book_changed(ctx, price)


def return_bond(ctx: Context, order_id: bytes, row: BondRow) -> None:
    """Return a bond to its owner's bond account, where it may back other orders."""
    remove_bond(ctx, order_id, row)
    back = Transfer(move=BOND_RETURN, source=order_id.hex(), target=row.owner, amount=row.amount)
    pay_from_bond(ctx, order_id, row, (back,))
    mark_if_bidder(ctx, row.owner)


# --- capacity ------------------------------------------------------------------------------------


def reserve(ctx: Context, bid_id: bytes, validator: str, work: int, price: int) -> None:
    """Reserve the capacity that work at a price takes of a bid and of its validator."""
    bid = BIDS.must(ctx.store, bid_id)
    BIDS.update(ctx.store, bid_id, reserved=bid.reserved + work)
    _add_load(ctx, validator, work, price_ceil(work, price))


def release(ctx: Context, bid_id: bytes, validator: str, work: int, price: int) -> None:
    """Release capacity that was reserved; its bid may have left the book meanwhile."""
    _add_load(ctx, validator, -work, -price_ceil(work, price))
    bid = BIDS.get(ctx.store, bid_id)
    if bid is not None:
        BIDS.update(ctx.store, bid.id, reserved=bid.reserved - work)
    mark_if_bidder(ctx, validator)


def _add_load(ctx: Context, validator: str, work: int, value: int) -> None:
    load = get_load(ctx.store, validator)
    LOADS.put(ctx.store, replace(load, work=load.work + work, value=load.value + value))


# --- bids ----------------------------------------------------------------------------------------


def get_own_bid(ctx: Context, bid_id: bytes, validator: str) -> Bid:
    """Return a standing bid of the validator's."""
    bid = BIDS.need(ctx.store, bid_id)
    if bid.validator != validator:
        raise Refusal(NOT_YOURS, "bid_id", "is somebody else's bid", "name one of yours")
    if ctx.clock >= bid.expires_at:
        raise Refusal(DEADLINE_PASSED, "bid_id", "the bid has expired", "place a new one")
    return bid


def mark_worsened(ctx: Context, validator: str) -> None:
    """Remember that the validator went back on a bid: no order that was open by then is for any of its bids."""
    load = get_load(ctx.store, validator)
    LOADS.put(ctx.store, replace(load, worsened_height=ctx.height))


def close_bid(ctx: Context, bid: Bid, reason: str) -> None:
    """Take a bid out of the book; running legs go on."""
    BIDS.delete(ctx.store, bid.id)
    BIDS_OF.delete(ctx.store, bid.validator, bid.id)
    cancel(ctx, bid.expires_at, BID_DUE, bid.id)
    ctx.emit(BidClosed(bid.id, bid.validator, reason))


def on_bid(ctx: Context, entry: QueueEntry) -> None:
    """Take an expired bid out of the book."""
    bid = BIDS.get(ctx.store, entry.parts[0])
    if bid is not None and ctx.clock >= bid.expires_at:
        close_bid(ctx, bid, "expired")

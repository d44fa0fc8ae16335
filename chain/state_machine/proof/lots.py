"""Lots: draws that wait for a beacon that no party with an interest in the draw could choose (protocol section 1.5).

A lot is complete in the block in which enough proposers that are not parties have revealed since the commitment. Two or
more such proposers that together have more than a third of the stake are enough. If the validators that are not parties
are fewer or have less stake, all of them must have revealed. If every validator is a party, the next block completes
the lot. The seed of the lot is the beacon of the block that completes it.

After ``lot_wait`` an incomplete lot uses the beacon of the last block since the commitment whose proposer is not a
party. If there is no such block, it uses the beacon of the next block. The parties are fixed when the lot is opened.
Blocks without a reveal do not count.

**Cost per block.** Lots with the same parties form one group. One pass over the last reveals of all validators, newest
first, finds the height below which all lots of a group are complete. So the cost does not depend on the number of
waiting lots. A block checks at most ``GROUPS_PER_BLOCK`` groups in turn, and draws at most ``LOTS_PER_BLOCK`` lots,
within the gas for draws (``LOTS_PERCENT``). A later block checks the rest, and its beacon is then their seed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from chain.state_machine.context import Context, LotSubject
from chain.state_machine.gas import DUE_GAS, take_due_gas
from chain.state_machine.proof.gas import LOTS_PERCENT
from chain.state_machine.proof.tables import (
    LAST_GROUP,
    LOT_DUE,
    LOT_GROUPS,
    LOTS,
    WAITING_LOTS,
    Lot,
    LotGroup,
    LotKey,
    lot_key,
)
from chain.state_machine.queue import QueueEntry, cancel, schedule
from chain.state_machine.registry.members import get_active
from chain.state_machine.registry.tables import LAST_REVEALS
from chain.state_machine.tables import number_of
from domain.codec import pack
from domain.hashing import hash_fields

PROPOSERS = 2
GROUPS_PER_BLOCK = 256
LOTS_PER_BLOCK = 256


# --- opening and closing -------------------------------------------------------------------------


def open_lot(ctx: Context, subject: LotSubject, parties: Iterable[str], lot_wait: int) -> None:
    """Open a lot for a commitment of this block; do nothing if the lot is already open."""
    key = lot_key(subject)
    if LOTS.has(ctx.store, *key):
        return
    frozen = tuple(sorted(set(parties)))
    group_id = hash_fields("assay/lot/parties", *frozen)
    group = LOT_GROUPS.get(ctx.store, group_id) or LotGroup(group_id, frozen, 0)
    LOT_GROUPS.put(ctx.store, LotGroup(group_id, frozen, group.waiting + 1))
    # The beacon of this block is already known. So the lot waits at least one second, in order to use the beacon of a
    # later block.
    lot = Lot(
        subject=pack(subject),
        group_id=group_id,
        height=ctx.height,
        deadline=ctx.clock + max(1, lot_wait),
    )
    LOTS.put_at(ctx.store, lot, *key)
    WAITING_LOTS.mark(ctx.store, group_id, lot.height, *key)
    schedule(ctx, lot.deadline, LOT_DUE, *key)


def close_lot(ctx: Context, key: LotKey, lot: Lot) -> None:
    """Remove a lot that was drawn or is no longer needed."""
    LOTS.delete(ctx.store, *key)
    WAITING_LOTS.delete(ctx.store, lot.group_id, lot.height, *key)
    group = LOT_GROUPS.must(ctx.store, lot.group_id)
    if group.waiting == 1:
        LOT_GROUPS.delete(ctx.store, group.id)
    else:
        LOT_GROUPS.put(ctx.store, LotGroup(group.id, group.parties, group.waiting - 1))
    cancel(ctx, lot.deadline, LOT_DUE, *key)


def put_off_lot(ctx: Context, key: LotKey, lot: Lot) -> None:
    """Let a lot wait for another second, because no beacon for it exists yet."""
    deadline = ctx.clock + 1
    LOTS.put_at(ctx.store, replace(lot, deadline=deadline), *key)
    schedule(ctx, deadline, LOT_DUE, *key)


def drop_lot(ctx: Context, subject: LotSubject) -> None:
    """Remove the lot of a subject, if it is open."""
    key = lot_key(subject)
    lot = LOTS.get(ctx.store, *key)
    if lot is not None:
        close_lot(ctx, key, lot)


# --- drawing -------------------------------------------------------------------------------------


def apply_lots(ctx: Context) -> None:
    """Make the draws of the lots that this block's beacon completes, until the gas for draws is used up."""
    for key, lot in take_complete(ctx):
        # An earlier draw may have removed the lot.
        if LOTS.has(ctx.store, *key):
            weight = DUE_GAS + _get_weight(ctx, key, lot)
            if not take_due_gas(ctx, "lots", LOTS_PERCENT, weight):
                return
            apply_lot(ctx, key, lot, ctx.revealed)


def apply_lot(ctx: Context, key: LotKey, lot: Lot, beacon: bytes) -> None:
    """Close the lot and make its draw."""
    close_lot(ctx, key, lot)
    draw = ctx.rules.draws[key.purpose]
    draw.apply(ctx, lot.subject.unpack(draw.subject), beacon)


def _get_weight(ctx: Context, key: LotKey, lot: Lot) -> int:
    """Return the gas of drawing a lot."""
    draw = ctx.rules.draws[key.purpose]
    return draw.weight(ctx, lot.subject.unpack(draw.subject))


def on_lot(ctx: Context, entry: QueueEntry) -> None:
    """Draw a lot whose ``lot_wait`` is over, with the beacon for late lots; if there is none, wait another second."""
    key = LotKey(entry.text(0), entry.parts[1])
    lot = LOTS.get(ctx.store, *key)
    if lot is None:
        return
    beacon = get_late_beacon(ctx, lot)
    if beacon:
        apply_lot(ctx, key, lot, beacon)
    else:
        put_off_lot(ctx, key, lot)


def weigh_lot(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of a lot's draw; 0 if the lot no longer exists."""
    key = LotKey(entry.text(0), entry.parts[1])
    lot = LOTS.get(ctx.store, *key)
    return 0 if lot is None else _get_weight(ctx, key, lot)


# --- complete lots -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Revealer:
    """A validator in the set with a valid beacon key.

    ``height`` is the height of its last reveal, 0 before the first one.
    """

    operator: str
    stake: int
    height: int


def take_complete(ctx: Context) -> Iterator[tuple[LotKey, Lot]]:
    """Yield the lots that this block's beacon completes, at most ``LOTS_PER_BLOCK``.

    If the caller stops, because the gas for draws is used up, the next block continues with the same group.
    """
    groups = _get_groups(ctx) if ctx.revealed else []
    if not groups:
        return
    active = get_active(ctx.store)
    stake = sum(validator.stake for validator in active)
    heights = {last.operator: last.height for last in LAST_REVEALS.scan(ctx.store)}
    revealers = [
        _Revealer(validator.operator, validator.stake, heights.get(validator.operator, 0))
        for validator in active
        if validator.beacon_key(ctx.height)
    ]
    revealers.sort(key=lambda revealer: -revealer.height)
    drawn = 0
    for group in groups:
        lots = _get_lots(ctx, group, _get_reached(ctx, group, revealers, stake))
        # Read all lots of the group before the first draw, because a draw changes the waiting lots.
        for complete in list(islice(lots, LOTS_PER_BLOCK - drawn + 1)):
            if drawn == LOTS_PER_BLOCK:
                return
            drawn += 1
            yield complete
        LAST_GROUP.set(ctx.store, group.id)


def get_late_beacon(ctx: Context, lot: Lot) -> bytes:
    """Return the beacon for a lot whose ``lot_wait`` is over; empty if the lot has to wait for the next beacon.

    It is the beacon of the last block since the commitment whose proposer is not a party. If there is no such block, it
    is the beacon of this block.
    """
    parties = LOT_GROUPS.must(ctx.store, lot.group_id).parties
    since = [last for last in LAST_REVEALS.scan(ctx.store) if last.height > lot.height and last.operator not in parties]
    return max(since, key=lambda last: last.height).beacon if since else ctx.revealed


def _get_groups(ctx: Context) -> list[LotGroup]:
    """Return the groups of lots to check in this block, at most ``GROUPS_PER_BLOCK``, in turn."""
    last = LAST_GROUP.get(ctx.store) or b""
    turn = LOT_GROUPS.scan(ctx.store, after=(last,), limit=GROUPS_PER_BLOCK)
    for group in LOT_GROUPS.scan(ctx.store, limit=GROUPS_PER_BLOCK - len(turn)):
        if group.id > last:
            break
        turn.append(group)
    return turn


def _get_reached(ctx: Context, group: LotGroup, revealers: list[_Revealer], stake: int) -> int:
    """Return the height below which all lots of a group are complete.

    ``revealers`` are sorted, the newest reveal first.
    """
    able = [revealer for revealer in revealers if revealer.operator not in group.parties]
    if not able:
        return ctx.height
    if able[0].height != ctx.height:  # A party proposed this block, so the block completes no lot.
        return 0
    revealed = 0
    for count, revealer in enumerate(able, 1):
        revealed += revealer.stake
        if count >= PROPOSERS and 3 * revealed > stake:
            return revealer.height
    return able[-1].height


def _get_lots(ctx: Context, group: LotGroup, reached: int) -> Iterator[tuple[LotKey, Lot]]:
    """Yield a group's lots that were opened below the height ``reached``, oldest first."""
    for _, height, purpose, subject_id in WAITING_LOTS.keys(ctx.store, group.id):
        if number_of(height) >= reached:
            return
        key = LotKey(purpose.decode(), subject_id)
        yield key, LOTS.must(ctx.store, *key)

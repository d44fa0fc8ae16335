"""Lots: what waits for a beacon that nobody who gains by it could have chosen (protocol section 1.5).

A lot is complete in the block at which different proposers who are no party, with more than a third of the stake and
at least two, have revealed since the commitment: its seed is that block's beacon. Where all such validators are fewer
or hold less, all of them must have; where there is none, the next block does, whoever made it. After ``lot_wait`` the
last such block that there was must do, and without any the next block. The parties are frozen when the lot is opened.
Blocks that begin with no reveal do not count.

**What a block costs.** Lots with the same parties are one group. With the last reveals of all validators, newest first,
it is one walk for a group to find the height below which its lots are complete; how many lots wait does not matter. A
block looks at ``GROUPS_PER_BLOCK`` groups in turn, and draws ``LOTS_PER_BLOCK`` lots, as far as the gas for draws goes
(``LOTS_PERCENT``). What does not fit is looked at in a later block, and has that block's beacon for a
seed.
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
from chain.state_machine.registry.members import is_active
from chain.state_machine.registry.tables import LAST_REVEALS, VALIDATORS
from chain.state_machine.tables import number_of
from domain.codec import pack
from domain.hashing import hash_fields

PROPOSERS = 2
GROUPS_PER_BLOCK = 256
LOTS_PER_BLOCK = 256


# --- opening and closing -------------------------------------------------------------------------


def open_lot(ctx: Context, subject: LotSubject, parties: Iterable[str], lot_wait: int) -> None:
    """Begin to wait, for a commitment of this block; a lot that is open already stays."""
    key = lot_key(subject)
    if LOTS.has(ctx.store, *key):
        return
    frozen = tuple(sorted(set(parties)))
    group_id = hash_fields("assay/lot/parties", *frozen)
    group = LOT_GROUPS.get(ctx.store, group_id) or LotGroup(group_id, frozen, 0)
    LOT_GROUPS.put(ctx.store, LotGroup(group_id, frozen, group.waiting + 1))
    # A second later there has been another block; this one's beacon is known.
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
    """Remove a lot that is drawn or not needed any more."""
    LOTS.delete(ctx.store, *key)
    WAITING_LOTS.delete(ctx.store, lot.group_id, lot.height, *key)
    group = LOT_GROUPS.must(ctx.store, lot.group_id)
    if group.waiting == 1:
        LOT_GROUPS.delete(ctx.store, group.id)
    else:
        LOT_GROUPS.put(ctx.store, LotGroup(group.id, group.parties, group.waiting - 1))
    cancel(ctx, lot.deadline, LOT_DUE, *key)


def put_off_lot(ctx: Context, key: LotKey, lot: Lot) -> None:
    """Let a lot wait another second, because no block has revealed anything."""
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
    """Draw the lots that this block's beacon completes, as far as the gas for draws goes."""
    for key, lot in take_complete(ctx):
        # Else one before it dropped it.
        if LOTS.has(ctx.store, *key):
            weight = DUE_GAS + _get_weight(ctx, key, lot)
            if not take_due_gas(ctx, "lots", LOTS_PERCENT, weight):
                return
            apply_lot(ctx, key, lot, ctx.revealed)


def apply_lot(ctx: Context, key: LotKey, lot: Lot, beacon: bytes) -> None:
    """Draw what the lot was opened for, once."""
    close_lot(ctx, key, lot)
    draw = ctx.rules.draws[key.purpose]
    draw.apply(ctx, lot.subject.unpack(draw.subject), beacon)


def _get_weight(ctx: Context, key: LotKey, lot: Lot) -> int:
    """Return what drawing a lot weighs."""
    draw = ctx.rules.draws[key.purpose]
    return draw.weight(ctx, lot.subject.unpack(draw.subject))


def on_lot(ctx: Context, entry: QueueEntry) -> None:
    """Draw with the beacon that there is, because the lot has waited long enough; without any it goes on waiting."""
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
    """Return what the draw weighs."""
    key = LotKey(entry.text(0), entry.parts[1])
    lot = LOTS.get(ctx.store, *key)
    return 0 if lot is None else _get_weight(ctx, key, lot)


# --- what a block's beacon completes -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Revealer:
    """A validator in the set with a key that counts; ``height`` is of its last reveal, 0 before the first."""

    operator: str
    stake: int
    height: int


def take_complete(ctx: Context) -> Iterator[tuple[LotKey, Lot]]:
    """Yield the lots that this block's beacon completes, at most as many as a block draws.

    Where the asker stops, because the gas for draws is used up, the next block goes on.
    """
    groups = _get_groups(ctx) if ctx.revealed else []
    if not groups:
        return
    active = [validator for validator in VALIDATORS.scan(ctx.store) if is_active(validator)]
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
        # Read before any is drawn, which changes what is waiting.
        for found in list(islice(lots, LOTS_PER_BLOCK - drawn + 1)):
            if drawn == LOTS_PER_BLOCK:
                return
            drawn += 1
            yield found
        LAST_GROUP.set(ctx.store, group.id)


def get_late_beacon(ctx: Context, lot: Lot) -> bytes:
    """Return the beacon for a lot that has waited long enough; empty where it has to wait for the next one.

    That of the last block since the commitment whose proposer is no party, else this block's own.
    """
    parties = LOT_GROUPS.must(ctx.store, lot.group_id).parties
    since = [last for last in LAST_REVEALS.scan(ctx.store) if last.height > lot.height and last.operator not in parties]
    return max(since, key=lambda last: last.height).beacon if since else ctx.revealed


def _get_groups(ctx: Context) -> list[LotGroup]:
    """Return the groups whose turn it is: all, or the next ones behind the last one of the block before."""
    last = LAST_GROUP.get(ctx.store) or b""
    turn = LOT_GROUPS.scan(ctx.store, after=(last,), limit=GROUPS_PER_BLOCK)
    for group in LOT_GROUPS.scan(ctx.store, limit=GROUPS_PER_BLOCK - len(turn)):
        if group.id > last:
            break
        turn.append(group)
    return turn


def _get_reached(ctx: Context, group: LotGroup, revealers: list[_Revealer], stake: int) -> int:
    """Return the height below which a group's lots are complete, from the last reveals, newest first."""
    able = [revealer for revealer in revealers if revealer.operator not in group.parties]
    if not able:
        return ctx.height
    if able[0].height != ctx.height:  # a party's block completes nothing
        return 0
    revealed = 0
    for count, revealer in enumerate(able, 1):
        revealed += revealer.stake
        if count >= PROPOSERS and 3 * revealed > stake:
            return revealer.height
    return able[-1].height


def _get_lots(ctx: Context, group: LotGroup, reached: int) -> Iterator[tuple[LotKey, Lot]]:
    """Yield a group's lots that were opened below a height, oldest first."""
    for _, height, purpose, subject_id in WAITING_LOTS.keys(ctx.store, group.id):
        if number_of(height) >= reached:
            return
        key = LotKey(purpose.decode(), subject_id)
        yield key, LOTS.must(ctx.store, *key)

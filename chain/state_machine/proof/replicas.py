"""Replicas of an order: when their rounds may go on, and the comparison of these rounds (:mod:`pol.rules.replicas`).

Each replica is an order of its own. Whatever may let one of them go on schedules one entry of the queue for all of
them, which reviews them. A round that was closed has a panel that waits until the round is compared.
"""

from collections.abc import Iterable, Iterator

from chain.state_machine.context import Context
from chain.state_machine.ledger.tables import TALLIES
from chain.state_machine.legs.progress import restart_progress
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.orders import begin_wait, end_wait
from chain.state_machine.market.tables import ORDERS
from chain.state_machine.proof.gas import CLOSE_GAS, READ_GAS
from chain.state_machine.proof.panels import ask_panel
from chain.state_machine.proof.places import emit_place, get_roots
from chain.state_machine.proof.room import ask_room, end_comparison, move_panel, weigh_ask
from chain.state_machine.proof.rounds import weigh_void
from chain.state_machine.proof.shares import get_live_shares
from chain.state_machine.proof.tables import (
    AWAITING,
    COMPARING,
    DEPARTURES,
    DIFFERENCES,
    PANELS,
    PUBLISHED,
    REPLICAS_DUE,
    ROUNDS,
    SHARES,
    SHOWN_TRACES,
    STANDING_ISSUES,
    Difference,
)
from chain.state_machine.proof.voiding import end_void, will_be_void
from chain.state_machine.queue import QueueEntry, schedule
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.hashing import HASH_SIZE
from domain.keys import RoundKey
from domain.legs.records import Leg, LegState
from domain.market.records import Order, OrderState
from domain.proof.events import (
    PlaceRuled,
    ReplicasAwaited,
    ReplicasReady,
    RoundCompared,
    TraceMissing,
    TraceWanted,
)
from domain.proof.reasons import Comparison
from domain.proof.records import (
    AnswerKind,
    AuditKind,
    AuditPlace,
    Finding,
    PanelPlace,
    Round,
    Ruling,
    ShareRoots,
    WantedTrace,
)
from domain.proof.transitions import PanelStep
from pol.rules.panels import reveal_seconds
from pol.rules.replicas import Result, confirm, find_departures, find_slot, replica_ids


def get_others(store: Overlay, order: Order) -> list[Order]:
    """Return the other replicas of an order; empty for a single order."""
    return [ORDERS.must(store, name) for name in replica_ids(order) if name != order.id]


def is_published(store: Overlay, order: Order, round: int) -> bool:
    """Return whether roots of a round are public, or may become so at any time, so that others could copy them."""
    return bool(order.replicas) and PUBLISHED.has(store, order.first_replica, round)


def publish(ctx: Context, order: Order, round: int) -> None:
    """Record that roots of a round may be public from now on, so that no replica waits for others with this round."""
    if order.replicas and not is_published(ctx.store, order, round):
        PUBLISHED.mark(ctx.store, order.first_replica, round)
        schedule_review(ctx, order)


def may_publish(store: Overlay, order: Order, round: int) -> bool:
    """Return whether the validator of an order may publish roots of the open round, as far as replicas are concerned.

    It may when the chain has recorded so. Roots that a validator sends are in mempools before they are on chain, so a
    share that is committed after this record is late.
    """
    return not order.replicas or is_published(store, order, round)


def _is_complete(store: Overlay, order: Order, round: int) -> bool:
    """Return whether an order has committed to a share of each slot of the open round, and so has every other replica
    that may still do so.
    """
    if not _has_committed(store, order, round):
        return False
    pending = (other for other in get_others(store, order) if _may_close(store, other, round))
    return all(_has_committed(store, other, round) for other in pending)


def holds_back(store: Overlay, order: Order, leg: Leg) -> bool:
    """Return whether the shares of a leg's open round cannot be accepted yet, because of other replicas."""
    return leg.state is LegState.RUNNING and not may_publish(store, order, leg.round)


def is_awaiting(ctx: Context, leg: Leg) -> bool:
    """Return whether the open round of a leg waits for other replicas, so that the leg cannot make progress."""
    return AWAITING.has(ctx.store, *leg.open_round)


def end_awaiting(ctx: Context, order: Order, leg: Leg) -> None:
    """If the open round of a leg waits for other replicas, end the wait."""
    if is_awaiting(ctx, leg):
        AWAITING.delete(ctx.store, *leg.open_round)
        end_wait(ctx, order)
        ctx.emit(ReplicasReady(leg.open_round))


def note_committed(ctx: Context, order: Order, leg: Leg) -> None:
    """Let a leg whose slots of the open round all have a committed share wait for other replicas, if they have not
    committed to theirs.
    """
    if not order.replicas:
        return
    if not _has_committed(ctx.store, order, leg.round):
        # Its validator has rejected a share, so it is the one that others wait for.
        end_awaiting(ctx, order, leg)
    elif _is_complete(ctx.store, order, leg.round):
        publish(ctx, order, leg.round)
    elif not is_awaiting(ctx, leg) and not may_publish(ctx.store, order, leg.round):
        AWAITING.mark(ctx.store, *leg.open_round)
        begin_wait(ctx, order.id)
        ctx.emit(ReplicasAwaited(leg.open_round))
    schedule_review(ctx, order)


def note_rejected(ctx: Context, order: Order, leg: Leg) -> None:
    """Let a leg whose open round lost a committed share no longer wait: it is the one that others wait for."""
    end_awaiting(ctx, order, leg)
    schedule_review(ctx, order)


def schedule_review(ctx: Context, order: Order) -> None:
    """Let the queue review the replicas of an order."""
    if order.replicas:
        schedule(ctx, ctx.clock, REPLICAS_DUE, order.first_replica)


def on_dropped(ctx: Context, key: RoundKey) -> None:
    """End the wait of an open round that will never be closed, and let other replicas go on without it."""
    order = ORDERS.must(ctx.store, key.order_id)
    if order.replicas:
        end_awaiting(ctx, order, LEGS.must(ctx.store, key.order_id, key.leg))
        schedule_review(ctx, order)


def on_voided(ctx: Context, key: RoundKey) -> None:
    """Let other replicas go on without a round that became void, and forget what was shown about it.

    A difference in which it takes part is over. If the other replicas differ, too, they show their traces again.
    """
    order = ORDERS.must(ctx.store, key.order_id)
    if not order.replicas:
        return
    for parts in list(DEPARTURES.keys(ctx.store, *key)):
        DEPARTURES.delete(ctx.store, *parts)
    difference = DIFFERENCES.get(ctx.store, order.first_replica, key.round)
    if difference is not None and order.id in difference.orders:
        DIFFERENCES.delete(ctx.store, order.first_replica, key.round)
        for name in difference.orders:
            for parts in list(SHOWN_TRACES.keys(ctx.store, name)):
                SHOWN_TRACES.delete(ctx.store, *parts)
    schedule_review(ctx, order)


def has_live(ctx: Context, order: Order) -> bool:
    """Return whether another replica of an order has not ended, so that the order can be left to it."""
    return any(
        other.state is not OrderState.CLOSED and not _is_ending(ctx.store, other)
        for other in get_others(ctx.store, order)
    )


# --- the state of a replica ----------------------------------------------------------------------


def _is_ending(store: Overlay, order: Order) -> bool:
    return TALLIES.must(store, order.id).ending != 0


def _may_close(store: Overlay, order: Order, round: int) -> bool:
    """Return whether a replica may still close a round that it has not closed."""
    if order.state is OrderState.CLOSED or _is_ending(store, order):
        return False
    leg = LEGS.get(store, order.id, order.legs) if order.legs else None
    if leg is None or leg.state is LegState.MATCHED or order.state is OrderState.OPEN:
        return True
    return leg.state is LegState.RUNNING and leg.round <= round


def _has_committed(store: Overlay, order: Order, round: int) -> bool:
    """Return whether each slot of a running leg's open round has a committed share, and this is the given round."""
    leg = LEGS.get(store, order.id, order.legs) if order.legs else None
    if leg is None or leg.state is not LegState.RUNNING or leg.round != round:
        return False
    return sum(1 for _ in STANDING_ISSUES.scan(store, *leg.open_round)) == leg.slots


def _may_confirm(ctx: Context, order: Order, round: int) -> bool:
    """Return whether a replica that has not closed a published round may still close it without a late share.

    Each slot then has a committed share that is not late, because a share that is committed from now on would be late.
    """
    if order.state is OrderState.CLOSED or _is_ending(ctx.store, order):
        return False
    if not _has_committed(ctx.store, order, round):
        return False
    key = LEGS.must(ctx.store, order.id, order.legs).open_round
    return not any(share.late for share in get_live_shares(ctx, key))


def _get_closed(store: Overlay, order: Order, round: int) -> Round | None:
    """Return the closed round of a replica that is not void; None if there is none."""
    for number in range(order.legs, 0, -1):
        closed = ROUNDS.get(store, order.id, number, round)
        if closed is not None and not closed.void:
            return closed
    return None


# --- the review ----------------------------------------------------------------------------------


def on_review(ctx: Context, entry: QueueEntry) -> None:
    """Let the replicas of an order go on as far as they can: open rounds, and the comparison of the next round."""
    orders = [ORDERS.must(ctx.store, name) for name in replica_ids(ORDERS.must(ctx.store, entry.parts[0]))]
    for order in orders:
        leg = LEGS.get(ctx.store, order.id, order.legs) if order.legs else None
        if leg is None or not is_awaiting(ctx, leg):
            continue
        if is_published(ctx.store, order, leg.round) or _is_complete(ctx.store, order, leg.round):
            publish(ctx, order, leg.round)
            end_awaiting(ctx, order, leg)
            restart_progress(ctx, ORDERS.must(ctx.store, order.id), leg)
    waiting = sorted(
        (number_of(round), RoundKey(order.id, number_of(leg), number_of(round)))
        for order in orders
        for _, leg, round in COMPARING.keys(ctx.store, order.id)
    )
    if not waiting:
        return
    round = waiting[0][0]
    # The round was closed, so its roots are public.
    if any(_get_closed(ctx.store, order, round) is None and _may_confirm(ctx, order, round) for order in orders):
        return
    if _compare(ctx, orders, round, [key for number, key in waiting if number == round]) and len(waiting) > 1:
        schedule(ctx, ctx.clock, REPLICAS_DUE, entry.parts[0])


def weigh_review(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of a review. It reads each replica's shares; panels may begin, and rounds may become void."""
    orders = [ORDERS.must(ctx.store, name) for name in replica_ids(ORDERS.must(ctx.store, entry.parts[0]))]
    slots = orders[0].terms.slots
    each = weigh_ask(ctx) + (CLOSE_GAS + READ_GAS) * slots
    difference = next(iter(DIFFERENCES.scan(ctx.store, entry.parts[0])), None)
    voids = 0
    if difference is not None and ctx.clock >= difference.until:
        missing = (_get_closed(ctx.store, order, difference.round) for order in orders if order.id in difference.orders)
        voids = sum(weigh_void(ctx, entry_of(closed)) for closed in missing if closed is not None)
    return len(orders) * each + voids


def _compare(ctx: Context, orders: list[Order], round: int, keys: list[RoundKey]) -> bool:
    """Compare a round that no other replica may confirm; return False if validators still have to show traces."""
    closed = (_get_closed(ctx.store, order, round) for order in orders)
    results = {each.order_id: _get_result(ctx, each) for each in closed if each is not None}
    first = orders[0].first_replica
    difference = DIFFERENCES.get(ctx.store, first, round)
    if difference is not None and not _end_difference(ctx, difference, results):
        return False
    for slot, names in _find_differing(ctx, results):
        until = ctx.clock + reveal_seconds(orders[0].params)
        found = Difference(first=first, round=round, slot=slot, orders=names, until=until)
        _ask_traces(ctx, orders[0], found, results)
        return False
    for key in keys:
        if key.order_id not in results:
            end_comparison(ctx, ORDERS.must(ctx.store, key.order_id), key)
        elif COMPARING.has(ctx.store, *key):
            _decide(ctx, results[key.order_id], [other for name, other in results.items() if name != key.order_id])
    return True


def _get_result(ctx: Context, closed: Round) -> Result:
    shares = [SHARES.must(ctx.store, *key) for key in closed.share_keys]
    return Result(
        closed=closed,
        local_ins=tuple(share.local_in for share in shares),
        roots=tuple(get_roots(ctx, share.key) for share in shares),
    )


def _find_differing(ctx: Context, results: dict[bytes, Result]) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Yield the replicas that started from the same states and whose shares differ, with the first slot in which they
    do. Replicas whose departures are known are left out, and so are those whose comparison is over: another replica
    can still close the round with shares that providers included before its roots were public.
    """
    able = {name: result for name, result in results.items() if COMPARING.has(ctx.store, *result.closed.key)}
    for name, result in able.items():
        others = [other for known, other in able.items() if known != name]
        is_known = any(True for _ in DEPARTURES.keys(ctx.store, *result.closed.key))
        if is_known or confirm(result, others) is not False:
            continue
        group = {
            known: other for known, other in able.items() if not other.closed.late and other.opening == result.opening
        }
        slot = find_slot(list(group.values()))
        if slot is not None:
            yield slot, tuple(sorted(group))


def _decide(ctx: Context, result: Result, others: list[Result]) -> None:
    """Let the panel of a compared round begin, or let a lot decide about it."""
    closed = result.closed
    order = ORDERS.must(ctx.store, closed.order_id)
    confirmed = confirm(result, others)
    outcome = {True: Comparison.CONFIRMED, False: Comparison.DIFFERENT, None: Comparison.ALONE}[confirmed]
    ctx.emit(RoundCompared(closed.key, int(outcome)))
    end_comparison(ctx, order, closed.key)
    order = ORDERS.must(ctx.store, order.id)
    panel = PANELS.must(ctx.store, *closed.key.panel())
    if confirmed:
        ask_panel(ctx, order, closed, panel)
    else:
        ask_room(ctx, order, panel)


# --- the place at which replicas depart from each other ------------------------------------------


def _ask_traces(ctx: Context, order: Order, difference: Difference, results: dict[bytes, Result]) -> None:
    DIFFERENCES.put(ctx.store, difference)
    schedule(ctx, difference.until, REPLICAS_DUE, order.first_replica)
    for name in difference.orders:
        key = results[name].closed.key
        ctx.emit(TraceWanted(round=key, slot=difference.slot, until=difference.until))


def find_wanted(store: Overlay, closed: Round, order: Order) -> Difference | None:
    """Return the difference for which a validator still has to show the trace of a round; None if there is none."""
    difference = DIFFERENCES.get(store, order.first_replica, closed.round) if order.replicas else None
    if difference is None or closed.order_id not in difference.orders or SHOWN_TRACES.has(store, *closed.key):
        return None
    return difference if COMPARING.has(store, *closed.key) else None


def get_wanted(store: Overlay, order: Order) -> tuple[WantedTrace, ...]:
    """Return the traces that the validators of an order still have to show."""
    rounds = (ROUNDS.must(store, *parts) for parts in COMPARING.keys(store, order.id))
    found = ((closed, find_wanted(store, closed, order)) for closed in rounds)
    return tuple(
        WantedTrace(leg=closed.leg, round=closed.round, slot=difference.slot, until=difference.until)
        for closed, difference in found
        if difference is not None
    )


def get_issue(closed: Round, slot: int) -> int:
    """Return the issue of the accepted share of a slot."""
    return next(ref.issue for ref in closed.shares if ref.slot == slot)


def _end_difference(ctx: Context, difference: Difference, results: dict[bytes, Result]) -> bool:
    """Record the departures of replicas when all traces are shown, or the time for it is over; return whether it is so.

    A round whose trace was not shown becomes void. The validator of its leg is at fault.
    """
    asked = [results[name] for name in difference.orders if name in results]
    shown = {result.closed.order_id: SHOWN_TRACES.get(ctx.store, *result.closed.key) for result in asked}
    if None in shown.values() and ctx.clock < difference.until:
        return False
    traces: dict[bytes, tuple[int, ShareRoots, list[bytes]]] = {}
    for result in asked:
        leaves = shown[result.closed.order_id]
        if leaves is not None:
            at = [ref.slot for ref in result.closed.shares].index(difference.slot)
            split = [leaves[start : start + HASH_SIZE] for start in range(1, len(leaves), HASH_SIZE)]
            traces[result.closed.order_id] = (result.closed.shares[at].issue, result.roots[at], split)
            SHOWN_TRACES.delete(ctx.store, *result.closed.key)
    first = ORDERS.must(ctx.store, difference.first)
    for name, places in find_departures(first.terms, difference.slot, traces).items():
        _mark(ctx, results[name].closed.key, places)
    DIFFERENCES.delete(ctx.store, difference.first, difference.round)
    for result in asked:
        if shown[result.closed.order_id] is None:
            _void_unshown(ctx, result.closed, difference.slot)
            del results[result.closed.order_id]
    return True


def _mark(ctx: Context, key: RoundKey, places: Iterable[AuditPlace]) -> None:
    for place in places:
        DEPARTURES.mark(ctx.store, *key, int(place.kind), place.slot, place.issue, place.segment)


def _void_unshown(ctx: Context, closed: Round, slot: int) -> None:
    """Make a round void whose validator did not show a trace: its first segment counts as not served."""
    order = ORDERS.must(ctx.store, closed.order_id)
    leg = LEGS.must(ctx.store, closed.order_id, closed.leg)
    if will_be_void(ctx, leg, PANELS.must(ctx.store, *closed.key.panel())):
        return
    end_comparison(ctx, order, closed.key)
    ctx.emit(TraceMissing(closed.key, slot))
    place = AuditPlace(kind=AuditKind.SEGMENT, slot=slot, issue=get_issue(closed, slot), segment=0)
    finding = Finding(AnswerKind.UNAVAILABLE, b"", 0)
    unserved = PanelPlace(place=place, claim=b"", ruling=Ruling.WRONG, stage=0, finding=finding)
    panel = move_panel(ctx, PANELS.must(ctx.store, *closed.key.panel()), PanelStep.MISS, places=(unserved,))
    emit_place(ctx, panel.key, 0, unserved)
    ctx.emit(
        PlaceRuled(
            panel=panel.key,
            place=0,
            stage=0,
            ruling=int(Ruling.WRONG),
            kind=int(finding.kind),
            root=finding.root,
            step=finding.step,
        )
    )
    end_void(ctx, ORDERS.must(ctx.store, order.id), panel)


def entry_of(closed: Round) -> QueueEntry:
    """Return an entry of the queue that names a round, to weigh its end."""
    parts = (closed.order_id, closed.leg.to_bytes(8, "big"), closed.round.to_bytes(8, "big"))
    return QueueEntry(REPLICAS_DUE.number, 0, parts)

"""What must hold of rounds, shares, panels and lots."""

from collections import Counter
from itertools import groupby, pairwise

from chain.state_machine.context import HEAD, NS, Running
from chain.state_machine.invariant import Each, Invariants, ensure
from chain.state_machine.ledger.invariants import ensure_pot
from chain.state_machine.ledger.tables import (
    TALLIES,
)
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import HELD_TIMES, ORDERS
from chain.state_machine.proof.tables import (
    AUDIT_LOAD,
    LOT_DUE,
    LOT_GROUPS,
    LOTS,
    PANEL_DUTIES,
    PANEL_POTS,
    PANELS,
    ROOM_DUE,
    ROUNDS,
    SEATS,
    SHARES,
    STANDING_ISSUES,
    VOID_DUE,
    WAITING_LOTS,
    WAITING_PANELS,
    get_drawn_rounds,
)
from chain.state_machine.queue import get_entries
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.keys import RoundKey
from domain.legs.records import Leg
from domain.limits import SEATS_MAX
from domain.market.records import Order, OrderState
from domain.proof.moves import AUDITS_POT
from domain.proof.records import Round, Ruling, ShareState
from pol.rules.orders import handover_seconds
from pol.rules.panels import verify_seconds
from pol.rules.schedule import (
    round_work,
    served_terms,
    share_segments,
    share_work,
    total_work,
)
from pol.rules.stops import done_work


def check_audit_pots(store: Overlay, _: Running) -> None:
    """The count of what seats lost is the sum over the panels' pots."""
    ensure_pot(store, AUDITS_POT, sum(amount for _, amount in PANEL_POTS.scan(store)))


def check_rounds(store: Overlay, order: Order) -> None:
    """Work verified <= ordered; rounds are whole, verified in their order, and each of a slot by one leg alone."""
    name = order.id.hex()
    ordered = total_work(order.terms)
    ensure(order.work_verified <= ordered, f"order {name} verified more than ordered")
    rounds = ROUNDS.scan(store, order.id)
    legs = {leg.number: leg for leg in LEGS.scan(store, order.id)}
    paid = [(c.round, ref.slot) for c in rounds if c.verified for ref in c.shares]
    ensure(len(paid) == len(set(paid)), f"order {name} verified a share of a slot twice")
    verified = sum(closed.work for closed in rounds if closed.verified)
    ensure(verified == order.work_verified, f"order {name} counts its work wrong")
    for _, group in groupby(rounds, key=lambda closed: closed.leg):
        flags = [closed.verified for closed in group]
        in_order = flags == sorted(flags, reverse=True)
        ensure(in_order, f"order {name} verified a round before its predecessor")
    for closed in rounds:
        slots = [ref.slot for ref in closed.shares]
        whole = slots == list(legs[closed.leg].served_slots)
        ensure(whole, f"order {name} closed a round without a share of each slot")
        _check_round(store, order, legs[closed.leg], closed)
        both = closed.void and closed.verified
        ensure(not both, f"order {name} has a round that is void and verified")
    for before, closed in pairwise(rounds):
        behind = before.leg == closed.leg and before.void and not closed.void
        going_on = behind and order.id in _get_voiding(store)
        ensure(not behind or going_on, f"order {name} has a round behind a void one")
    for leg in legs.values():
        _check_leg(leg, [closed for closed in rounds if closed.leg == leg.number])


def _check_leg(leg: Leg, rounds: list[Round]) -> None:
    """The rounds of a leg follow each other from its first one on, and it counts them right."""
    name = f"leg {leg.number} of order {leg.order_id.hex()}"
    numbers = [closed.round for closed in rounds]
    ensure(numbers == list(range(leg.first_round, leg.round)), f"{name} left out a round")
    verified = sum(closed.verified for closed in rounds)
    ensure(leg.verified == verified, f"{name} counts {leg.verified} verified rounds of {verified}")
    void = sum(closed.void for closed in rounds)
    ensure(leg.void == void, f"{name} counts {leg.void} void rounds of {void}")


def _get_voiding(store: Overlay) -> set[bytes]:
    """Return the orders of which one round after the other becomes void."""
    return {entry.parts[0] for entry in get_entries(store) if entry.kind == VOID_DUE.number}


def _check_round(store: Overlay, order: Order, leg: Leg, closed: Round) -> None:
    """A round has the work of its terms and a next state; of one that stopped, what is whole, and nothing follows."""
    name = order.id.hex()
    either = (closed.stopped is None) == (closed.next_root != b"")
    ensure(either, f"order {name} has a round with and without an end")
    if closed.stopped is None:
        weighed = closed.work == round_work(served_terms(order.terms, leg))
        ensure(weighed, f"order {name} has a round of other work than its terms")
        return
    weighed = closed.work == sum(SHARES.must(store, *key).work for key in closed.share_keys)
    ensure(weighed, f"order {name} has a stopped round of other work than its shares")
    ensure(closed.round + 1 == leg.round, f"order {name} went on where its job stopped")


def check_queue(store: Overlay, rules: Running) -> None:
    """No order outlives its last deadline: every order that lives has an entry of the queue that is still to come."""
    entries = list(get_entries(store))
    lots = {entry.parts for entry in entries if entry.kind == LOT_DUE.number}
    found = list(zip(LOTS.keys(store), LOTS.scan(store), strict=True))
    for key, lot in found:
        ensure(key in lots, "a lot waits without a deadline")
        purpose, subject_id = key
        subject = lot.subject.unpack(rules.draws[purpose.decode()].subject)
        ensure(subject.id == subject_id, "a lot lies where that of another subject belongs")
    lots_of = sorted((lot.group_id, lot.height, *key) for key, lot in found)
    marked = [
        (group_id, number_of(height), purpose, subject_id)
        for group_id, height, purpose, subject_id in WAITING_LOTS.keys(store)
    ]
    ensure(lots_of == marked, "the index of lots is wrong")
    sizes = {group.id: group.waiting for group in LOT_GROUPS.scan(store)}
    ensure(sizes == Counter(group_id for group_id, *_ in marked), "a group of lots is wrong")
    # An order that waits for a lot ends when what the lot draws is done.
    waiting = {key.order_id for key in get_drawn_rounds(store)}
    waiting |= {entry.parts[0] for entry in entries if rules.kinds[entry.kind].of_order}
    # Or for audit room, which the panels that have it give back.
    waiting |= {order_id for _, order_id, *_ in WAITING_PANELS.keys(store)}
    for order in ORDERS.scan(store):
        alive = order.state is not OrderState.CLOSED
        ensure(not alive or order.id in waiting, f"nothing will ever end order {order.id.hex()}")


def check_deadlines(store: Overlay, _: Running) -> None:
    """No order is older than its last deadline: that of the order, then windows and stages, then the hand-over."""
    clock = HEAD.must(store).clock_ns // NS
    for order in ORDERS.iterate(store):
        if order.state is OrderState.CLOSED or clock <= order.deadline:
            continue
        handover = handover_seconds(order.terms, order.params, order.window)
        tail = 2 * verify_seconds(order.params, order.audit_ms, order.window) + handover
        tally = TALLIES.must(store, order.id)
        tail += clock - tally.waits_since if tally.waiting else 0
        time = HELD_TIMES.get(store, order.id)
        tail += clock - time.since if time is not None and time.holds else 0
        # Entries that the cap of a block carried over are allowed to be late.
        late = clock > order.deadline + tail and not _has_overdue(store, clock)
        ensure(not late, f"order {order.id.hex()} outlived its last deadline")


def _has_overdue(store: Overlay, clock: int) -> bool:
    return any(entry.time <= clock for entry in get_entries(store))


def check_shares(store: Overlay, order: Order) -> None:
    """One share stands for a slot, and is of the order's work; what is drawn is inside the share."""
    shares = SHARES.scan(store, order.id)
    for _, group in groupby(shares, key=lambda s: (s.claim.leg, s.claim.round)):
        standing = [s for s in group if s.state in (ShareState.COMMITTED, ShareState.ACCEPTED)]
        slots = [share.claim.slot for share in standing]
        ensure(len(set(slots)) == len(slots), "a slot has two shares in a round")
    indexed = {(key[0], *map(number_of, key[1:]), issue) for key, issue in STANDING_ISSUES.scan(store, order.id)}
    committed = (share for share in shares if share.state is ShareState.COMMITTED)
    marked = {tuple(share.claim.key) for share in committed}
    ensure(indexed == marked, "the index of standing shares is wrong")
    terms = order.terms
    segments = share_segments(terms)
    legs = {leg.number: leg for leg in LEGS.scan(store, order.id)}
    for share in shares:
        served = legs[share.claim.leg].served_slots
        ensure(share.claim.slot in served, "a share is of a slot that its leg does not serve")
        work = share_work(terms) if share.roots is None else done_work(terms, share.roots)
        ensure(share.work == work, "a share is of other work than its order's")
        inside = all(0 <= segment < segments for segment in share.drawn)
        ensure(inside, "a segment outside its share was drawn")
        shown = (share.roots is not None) == (share.state is ShareState.ACCEPTED)
        ensure(shown, "a share shows its roots before it is accepted, or not after")


def check_panels(store: Overlay, order: Order) -> None:
    """No answer without a seat, no seat for a party, nobody sits twice; counts and rulings fit the seats."""
    for panel in PANELS.scan(store, order.id):
        leg = LEGS.must(store, panel.order_id, panel.leg)
        seats = SEATS.scan(store, *panel.key)
        name = f"the panel of round {panel.round} of order {panel.order_id.hex()}"
        sitting = [seat.validator for seat in seats]
        parties = {leg.validator, order.consumer}
        ensure(not parties.intersection(sitting), f"a party sits in {name}")
        ensure(len(set(sitting)) == len(sitting), f"somebody sits twice in {name}")
        ensure([seat.number for seat in seats] == list(range(panel.seats)), f"{name} lost a seat")
        ensure(len(seats) <= SEATS_MAX, f"{name} has too many seats")
        new = [seat for seat in seats if seat.stage == panel.stage]
        committed = sum(seat.commitment != b"" for seat in new)
        revealed = sum(seat.revealed for seat in new)
        counted = (committed, revealed) == (panel.committed, panel.revealed)
        ensure(counted, f"{name} counts its seats wrong")
        for seat in seats:
            said = {answer.place for answer in seat.answers}
            ensure(said <= set(seat.places), f"a seat of {name} answers what it was not asked")
            ensure(seat.commitment != b"" or not said, f"a seat of {name} answers uncommitted")
        for place in panel.places:
            settled = place.ruling in (Ruling.RIGHT, Ruling.WRONG)
            ensure(settled == (place.found is not None), f"{name} rules without a finding")
        if panel.is_settled:
            closed = ROUNDS.must(store, *panel.key)
            ensure(closed.verified or closed.void, f"{name} is paid before its round ends")
        for seat in new if panel.is_open else ():
            number = PANEL_DUTIES.get(store, seat.validator, *panel.key)
            due = 0 if seat.revealed else seat.number + 1
            ensure(number == due, f"a seat has no duty in {name}, or one that it has done")


def check_room(store: Overlay, _: Running) -> None:
    """The room that panels take adds up; who has none waits, and somebody has some where anybody waits."""
    panels = PANELS.scan(store)
    total = sum(panel.load for panel in panels)
    ensure(total == AUDIT_LOAD.get(store), "the load of auditors is counted wrong")
    waiting = sorted(
        RoundKey(order_id, number_of(leg), number_of(round)) for _, order_id, leg, round in WAITING_PANELS.keys(store)
    )
    for key in waiting:
        panel = PANELS.must(store, *key)
        idle = panel.stage == 0 and panel.load == 0 and not panel.is_settled
        ensure(idle, f"order {key.order_id.hex()} waits for room that it has")
    counts = Counter(key.order_id for key in waiting)
    for order in ORDERS.scan(store):
        count = TALLIES.must(store, order.id).waiting
        ensure(count == counts[order.id], f"order {order.id.hex()} counts who waits wrong")
    stuck = waiting and not total and not any(e.kind == ROOM_DUE.number for e in get_entries(store))
    ensure(not stuck, "panels wait for room, and nobody has any")
    for panel in panels:
        ensure(not (panel.is_settled and panel.load), "a panel that is over takes room")


def check_duties(store: Overlay, _: Running) -> None:
    """Only seats of an open stage that have not revealed have something to do; no pot outlives its round."""
    for name, order_id, leg, round in PANEL_DUTIES.keys(store):
        key = RoundKey(order_id, number_of(leg), number_of(round))
        panel = PANELS.must(store, *key)
        ensure(panel.is_open, f"order {order_id.hex()} wants answers for a stage that is over")
        seat = SEATS.must(store, *key, PANEL_DUTIES.get(store, name, *key) - 1)
        mine = seat.validator == name.decode() and not seat.revealed
        ensure(mine, f"order {order_id.hex()} has a duty of another seat")
    for order_id, leg, round in PANEL_POTS.keys(store):
        closed = ROUNDS.must(store, order_id, number_of(leg), number_of(round))
        ended = ORDERS.must(store, order_id).state is OrderState.CLOSED
        over = ended or closed.void or closed.verified
        ensure(not over, f"order {order_id.hex()} keeps the pot of a panel that is over")


INVARIANTS = Invariants(
    whole=(check_audit_pots, check_queue, check_deadlines, check_room, check_duties),
    each=(Each(ORDERS, (check_rounds, check_shares, check_panels)),),
)

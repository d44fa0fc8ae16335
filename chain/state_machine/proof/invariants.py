"""Invariants of rounds, shares, panels and lots."""

from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise

from chain.state_machine.context import HEAD, NS, Running
from chain.state_machine.invariant import Each, Invariants, ensure
from chain.state_machine.ledger.invariants import ensure_pot
from chain.state_machine.ledger.tables import BOND_ROWS, ESCROWS, TALLIES
from chain.state_machine.legs.tables import LEGS
from chain.state_machine.market.tables import HELD_TIMES, LOADS, ORDERS
from chain.state_machine.proof.left import must_find_round
from chain.state_machine.proof.shares import LIVE
from chain.state_machine.proof.tables import (
    APPEAL_DUE,
    AUDIT_LOAD,
    AWAITING,
    BEHIND_PANELS,
    COMPARING,
    DELIVERIES,
    HELD_COUNTS,
    HELD_ISSUES,
    JAIL_DUE,
    LOT_DUE,
    LOT_GROUPS,
    LOTS,
    OPEN_ROUNDS,
    PANEL_DUTIES,
    PANEL_POTS,
    PANELS,
    ROOM_DUE,
    ROUNDS,
    SEATS,
    SHARES,
    STANDING_ISSUES,
    VOID_CLAIMS,
    VOID_DUE,
    VOID_FUNDS,
    WAITING_LOTS,
    WAITING_PANELS,
    WRONG_HANDOVERS,
    PanelSubject,
    get_drawn_rounds,
    lot_key,
)
from chain.state_machine.queue import DEADLINES, get_entries, panel_key
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.keys import RoundKey
from domain.ledger.records import BondKind
from domain.legs.records import Leg, LegState
from domain.limits import SEATS_MAX
from domain.market.records import Order, OrderState
from domain.proof.moves import AUDITS_POT
from domain.proof.records import AuditKind, Round, Ruling, Share, ShareState
from escrow.deposits import locked
from pol.rules.fees import compute_round_cost
from pol.rules.inclusion import HELD_ISSUES_FROM
from pol.rules.orders import handover_seconds
from pol.rules.panels import verify_seconds
from pol.rules.schedule import (
    round_work,
    served_terms,
    share_segments,
    share_work,
    total_work,
)
from pol.rules.stops import AGGREGATION, done_work, find_stop
from pol.rules.tiers.table import challenges_of


def check_audit_pots(store: Overlay, _: Running) -> None:
    """Check that the count of the audits pot is the sum of the panels' pots."""
    ensure_pot(store, AUDITS_POT, sum(amount for _, amount in PANEL_POTS.scan(store)))


def check_rounds(store: Overlay, order: Order) -> None:
    """Check the rounds of an order: the verified work is at most the ordered work, and rounds are whole and are
    verified in order.

    A slot of a round may be verified by one leg only, unless the order went back, because the states were lost. Then
    the rounds of the legs before that are trained again do not count.
    """
    name = order.id.hex()
    ordered = total_work(order.terms)
    ensure(order.work_verified <= ordered, f"order {name} has more verified work than ordered")
    rounds = ROUNDS.scan(store, order.id)
    legs = {leg.number: leg for leg in LEGS.scan(store, order.id)}
    counted = _get_counted(order, list(legs.values()), rounds)
    paid = [(c.round, ref.slot) for c in counted for ref in c.shares]
    ensure(len(paid) == len(set(paid)), f"order {name} has two verified shares of a slot in one round")
    for _, group in groupby(rounds, key=lambda closed: closed.leg):
        flags = [closed.verified for closed in group]
        in_order = flags == sorted(flags, reverse=True)
        ensure(in_order, f"order {name} has a verified round after one that is not verified")
    for closed in rounds:
        slots = [ref.slot for ref in closed.shares]
        whole = slots == list(legs[closed.leg].served_slots)
        ensure(whole, f"order {name} has a closed round without a share of each slot")
        _check_round(store, order, legs[closed.leg], closed)
        both = closed.void and closed.verified
        ensure(not both, f"order {name} has a round that is void and verified")
    for before, closed in pairwise(rounds):
        after_void = before.leg == closed.leg and before.void and not closed.void
        is_scheduled = after_void and order.id in _get_voiding(store)
        ensure(not after_void or is_scheduled, f"order {name} has a round after a void one that will not become void")
    verified = sum(closed.work for closed in counted)
    ensure(verified == order.work_verified, f"order {name} has a wrong count of verified work")
    for leg in legs.values():
        _check_leg(leg, [closed for closed in rounds if closed.leg == leg.number])


def _get_counted(order: Order, legs: list[Leg], rounds: list[Round]) -> list[Round]:
    """Return the verified rounds of an order that are not trained again.

    If the order went back at the end of a leg, the rounds of this and earlier legs count only before the round from
    which the order went on. That is the first round of the next leg; without a next leg, it is the order's next round.
    """
    until = {leg.number: order.terms.rounds for leg in legs}
    for leg in legs:
        if leg.back_root:
            end = legs[leg.number].first_round if leg.number < len(legs) else order.next_round
            until |= {number: min(until[number], end) for number in range(1, leg.number + 1)}
    return [closed for closed in rounds if closed.verified and closed.round < until[closed.leg]]


def _check_leg(leg: Leg, rounds: list[Round]) -> None:
    """Check that a leg's closed rounds have no gaps, and that its counts of verified and void rounds are right."""
    name = f"leg {leg.number} of order {leg.order_id.hex()}"
    numbers = [closed.round for closed in rounds]
    ensure(numbers == list(range(leg.first_round, leg.round)), f"the closed rounds of {name} have a gap")
    verified = sum(1 for closed in rounds if closed.verified)
    ensure(leg.verified == verified, f"{name} counts {leg.verified} verified rounds, but has {verified}")
    void = sum(1 for closed in rounds if closed.void)
    ensure(leg.void == void, f"{name} counts {leg.void} void rounds, but has {void}")


def _get_voiding(store: Overlay) -> set[bytes]:
    """Return the ids of the orders with a queue entry that makes their next round void."""
    return {entry.parts[0] for entry in get_entries(store) if entry.kind == VOID_DUE.number}


def _check_round(store: Overlay, order: Order, leg: Leg, closed: Round) -> None:
    """Check that a round has a next state, and the work that its order's terms require.

    A stopped round must have the work of its shares and no next state, and it must be the last one of the leg.
    """
    name = order.id.hex()
    either = (closed.stopped is None) == (closed.next_root != b"")
    ensure(either, f"order {name} has a round without exactly one of a next root and a stop")
    if closed.stopped is None:
        weighed = closed.work == round_work(served_terms(order.terms, leg))
        ensure(weighed, f"order {name} has a round without the work of its terms")
        return
    weighed = closed.work == sum(SHARES.must(store, *key).work for key in closed.share_keys)
    ensure(weighed, f"order {name} has a stopped round without the work of its shares")
    ensure(closed.round + 1 == leg.round, f"order {name} has a round after its job stopped")


def check_queue(store: Overlay, rules: Running) -> None:
    """Check that the queue has an entry for each lot, and an entry that ends each order that is not closed."""
    entries = list(get_entries(store))
    scheduled = {entry.parts for entry in entries if entry.kind == LOT_DUE.number}
    lots = list(zip(LOTS.keys(store), LOTS.scan(store), strict=True))
    for key, lot in lots:
        ensure(key in scheduled, "a lot has no deadline in the queue")
        purpose, subject_id = key
        subject = lot.subject.unpack(rules.draws[purpose.decode()].subject)
        ensure(subject.id == subject_id, "a lot has the key of another subject")
    lots_of = sorted((lot.group_id, lot.height, *key) for key, lot in lots)
    # The index orders purposes by length, too.
    marked = sorted(
        (group_id, number_of(height), purpose, subject_id)
        for group_id, height, purpose, subject_id in WAITING_LOTS.keys(store)
    )
    ensure(lots_of == marked, "the index of lots is wrong")
    sizes = {group.id: group.waiting for group in LOT_GROUPS.scan(store)}
    ensure(sizes == Counter(group_id for group_id, *_ in marked), "a group of lots has a wrong count")
    # An order with a waiting lot ends after the draw of the lot.
    will_end = {key.order_id for key in get_drawn_rounds(store)}
    will_end |= {entry.parts[0] for entry in entries if rules.kinds[entry.kind].of_order}
    # An order whose panel waits for audit room ends after other panels have returned their room.
    will_end |= {order_id for _, order_id, *_ in WAITING_PANELS.keys(store)}
    # If a panel of an order waits behind another panel, the order ends after that other panel.
    will_end |= {order_id for order_id, *_ in BEHIND_PANELS.keys(store)}
    # If a round waits for replicas, the order ends after they have closed theirs, or have failed.
    will_end |= {order_id for order_id, *_ in COMPARING.keys(store)}
    for order in ORDERS.scan(store):
        is_closed = order.state is OrderState.CLOSED
        ensure(is_closed or order.id in will_end, f"no queue entry will end order {order.id.hex()}")


def check_deadlines(store: Overlay, _: Running) -> None:
    """Check that each order is closed at its last deadline. This is the order's own deadline plus the time of windows,
    challenges, stages and hand-over.

    If the work of ends took more gas than blocks had, the withheld part of a failed leg waits from a later time on.
    """
    clock = HEAD.must(store).clock_ns // NS
    for order in ORDERS.iterate(store):
        if order.state is OrderState.CLOSED or clock <= order.deadline:
            continue
        handover = handover_seconds(order.terms, order.params, order.window)
        leg = LEGS.get(store, order.id, order.legs)
        # Each panel about a result lets the wait for the settlement begin again.
        waits = 1 + (leg.missed if leg is not None else 0)
        tail = 2 * verify_seconds(order.params, order.audit_ms, order.window) + waits * handover
        tail += challenges_of(order, leg).wait if leg is not None else 0
        tally = TALLIES.must(store, order.id)
        if tally.stands or clock <= tally.stands_until:
            continue  # the order stays open while providers may stand for shares
        tail += clock - tally.waits_since if tally.waiting else 0
        time = HELD_TIMES.get(store, order.id)
        tail += clock - time.since if time is not None and time.holds else 0
        # An order may be late if the queue has overdue entries, because the gas of the last block was used up.
        begun = max(order.deadline, leg.part_until) if leg is not None else order.deadline
        late = clock > begun + tail and not _has_overdue(store, clock)
        ensure(not late, f"order {order.id.hex()} is not closed after its last deadline")


def _has_overdue(store: Overlay, clock: int) -> bool:
    return any(entry.time <= clock for entry in get_entries(store))


def check_shares(store: Overlay, order: Order) -> None:
    """Check that a slot has at most one live or accepted share per round; check work, draws and roots of shares."""
    shares = SHARES.scan(store, order.id)
    for _, group in groupby(shares, key=lambda s: (s.key.leg, s.key.round)):
        valid = [s for s in group if s.state in LIVE]
        slots = [share.claim.slot for share in valid]
        ensure(len(set(slots)) == len(slots), "a slot has two shares in a round")
    indexed = {(key[0], *map(number_of, key[1:]), issue) for key, issue in STANDING_ISSUES.scan(store, order.id)}
    marked = {tuple(share.key) for share in shares if share.state in LIVE}
    ensure(indexed == marked, "the index of live shares is wrong")
    terms = order.terms
    segments = share_segments(terms)
    legs = {leg.number: leg for leg in LEGS.scan(store, order.id)}
    for share in shares:
        served = legs[share.key.leg].served_slots
        ensure(share.claim.slot in served, "a share is of a slot that its leg does not serve")
        work = share_work(terms) if share.roots is None else done_work(terms, share.roots)
        ensure(share.work == work, "a share does not have the work of its order's terms")
        inside = all(0 <= segment < segments for segment in share.drawn)
        ensure(inside, "a segment outside its share was drawn")
        ensure(share.is_drawn or not share.drawn, "a share has drawn segments, but its lot is not drawn")
        was_accepted = share.state is ShareState.ACCEPTED or (share.state is ShareState.TAKEN and not share.reason)
        ensure(
            (share.roots is not None) == (was_accepted or share.stand > 0),
            "a share has roots before it is accepted, or none after",
        )


def check_taken_shares(store: Overlay, order: Order) -> None:
    """Check that each claim has one share that can be paid, and that a share that was taken over is in the next leg."""
    name = order.id.hex()
    shares = SHARES.scan(store, order.id)
    owned = [share.claim for share in shares if share.state is not ShareState.TAKEN]
    ensure(len(set(owned)) == len(owned), f"order {name} has two shares with one claim")
    held = {share.key for share in shares}
    for share in shares:
        if share.state is ShareState.TAKEN:
            follows = replace(share.key, leg=share.key.leg + 1) in held
            ensure(follows, f"order {name} lost a share that its next leg took over")


def check_held_shares(store: Overlay, order: Order) -> None:
    """Check that a share with an issue of its own is found by its task, keeps no slot, and has a number of its own."""
    name = order.id.hex()
    held = [share for share in SHARES.scan(store, order.id) if share.held_as and not share.taken_by]
    issues = [HELD_ISSUES.get(store, *share.claim.key, share.claim.provider) for share in held]
    is_found = issues == [share.held_as for share in held]
    is_found = is_found and len(issues) == sum(1 for _ in HELD_ISSUES.keys(store, order.id))
    ensure(is_found, f"order {name} does not find its held shares")
    numbers = sorted(share.held_as - HELD_ISSUES_FROM for share in held)
    ensure(numbers == list(range(HELD_COUNTS.get(store, order.id))), f"order {name} counts its held shares wrong")
    for share in held:
        ensure(share.state not in LIVE, f"order {name} has a held share that keeps a slot")
        ensure(SHARES.has(store, *share.claim.key), f"order {name} holds a share whose issue is free")


def check_open_rounds(store: Overlay, order: Order) -> None:
    """Check the numbers of an order's open round: the number of its accepted shares, their work, and the first share
    that ends early.

    A round that is closed or was dropped has no such numbers.
    """
    accepted = {leg.open_round: list[Share]() for leg in LEGS.scan(store, order.id) if leg.state is LegState.RUNNING}
    for share in SHARES.scan(store, order.id):
        key = share.key
        of_round = accepted.get(RoundKey(key.order_id, key.leg, key.round))
        if of_round is not None and share.state is ShareState.ACCEPTED:
            of_round.append(share)
    name = order.id.hex()
    for current in OPEN_ROUNDS.scan(store, order.id):
        shares = accepted.pop(current.key, [])
        ensure(current.accepted == len(shares) > 0, f"order {name} has a wrong count of accepted shares")
        ensure(current.work == sum(share.work for share in shares), f"order {name} has a wrong work of accepted shares")
        roots = ((share.claim.slot, share.claim.issue, share.roots) for share in shares if share.roots is not None)
        stop = find_stop(order.terms, roots)
        ensure(stop == (current.stopped or AGGREGATION), f"order {name} has a wrong place of its stop")
    ensure(not any(accepted.values()), f"order {name} has accepted shares that are not counted")


def check_panels(store: Overlay, order: Order) -> None:
    """Check that no party sits in a panel, that no validator sits twice, and that counts, answers and rulings fit."""
    for panel in PANELS.scan(store, order.id):
        leg = LEGS.must(store, panel.order_id, panel.leg)
        seats = SEATS.scan(store, *panel.key)
        name = f"panel {panel.dispute} of round {panel.round} of order {panel.order_id.hex()}"
        sitting = [seat.validator for seat in seats]
        parties = {leg.validator, order.consumer}
        ensure(not parties.intersection(sitting), f"a party sits in {name}")
        ensure(
            len({(s.validator, s.stage) for s in seats}) == len(seats), f"a validator sits twice in a stage of {name}"
        )
        asked = [(seat.validator, number) for seat in seats for number in seat.places]
        ensure(len(set(asked)) == len(asked), f"a validator recomputes a place twice in {name}")
        ensure([seat.number for seat in seats] == list(range(panel.seats)), f"{name} has a wrong count of seats")
        ensure(len(seats) <= SEATS_MAX, f"{name} has too many seats")
        new = [seat for seat in seats if seat.stage == panel.stage]
        committed = sum(1 for seat in new if seat.commitment != b"")
        revealed = sum(1 for seat in new if seat.revealed)
        counted = (committed, revealed) == (panel.committed, panel.revealed)
        ensure(counted, f"{name} has wrong counts of committed or revealed seats")
        for seat in seats:
            answered = {answer.place for answer in seat.answers}
            ensure(answered <= set(seat.places), f"a seat of {name} has an answer for a place outside its duty")
            ensure(seat.commitment != b"" or not answered, f"a seat of {name} has answers without a commitment")
        for place in panel.places:
            is_asked_again = panel.appellant != "" and place.ruling is Ruling.OPEN
            is_decided = place.ruling in (Ruling.RIGHT, Ruling.WRONG)
            ensure(
                is_asked_again or is_decided == (place.finding is not None),
                f"{name} has a ruling without a finding, or the reverse",
            )
        if panel.is_settled:
            closed = must_find_round(store, panel.round_key)
            over = closed.verified or closed.void or panel.dispute > 0
            ensure(over, f"{name} is settled before its round is verified or void")
        for seat in new if panel.is_open else ():
            number = PANEL_DUTIES.get(store, seat.validator, *panel.key)
            due = 0 if seat.revealed else seat.number + 1
            ensure(number == due, f"a seat in {name} lacks its duty, or has one after it revealed")


def check_room(store: Overlay, _: Running) -> None:
    """Check the sum of the panels' loads, and the waiting panels; panels may wait only if other panels have room."""
    panels = PANELS.scan(store)
    total = sum(panel.load for panel in panels)
    ensure(total == AUDIT_LOAD.get(store), "the load of auditors is not the sum of the panels' loads")
    waiting = sorted(panel_key(order_id, *numbers) for _, order_id, *numbers in WAITING_PANELS.keys(store))
    for key in waiting:
        panel = PANELS.must(store, *key)
        idle = panel.stage == 0 and panel.load == 0 and not panel.is_settled
        ensure(idle, f"a panel of order {key.order_id.hex()} waits for room, but has begun")
    counts = Counter(key.order_id for key in waiting)
    counts.update(order_id for order_id, *_ in (*AWAITING.keys(store), *COMPARING.keys(store)))
    for order in ORDERS.scan(store):
        count = TALLIES.must(store, order.id).waiting
        ensure(count == counts[order.id], f"order {order.id.hex()} has a wrong count of what it waits for")
    stuck = waiting and not total and not any(e.kind == ROOM_DUE.number for e in get_entries(store))
    ensure(not stuck, "panels wait for room, but no panel has any")
    for panel in panels:
        ensure(not (panel.is_settled and panel.load), "a settled panel still has room")


def check_duties(store: Overlay, _: Running) -> None:
    """Check that duties belong to seats of open stages that have not revealed, and that pots end with their rounds."""
    for name, order_id, *numbers in PANEL_DUTIES.keys(store):
        key = panel_key(order_id, *numbers)
        panel = PANELS.must(store, *key)
        ensure(panel.is_open, f"order {order_id.hex()} has a duty for a stage that is over")
        seat = SEATS.must(store, *key, PANEL_DUTIES.get(store, name, *key) - 1)
        fits = seat.validator == name.decode() and not seat.revealed
        ensure(fits, f"order {order_id.hex()} has a duty that does not belong to its seat")
    for order_id, *numbers in PANEL_POTS.keys(store):
        panel = PANELS.must(store, *panel_key(order_id, *numbers))
        closed = must_find_round(store, panel.round_key)
        ended = ORDERS.must(store, order_id).state is OrderState.CLOSED
        decided = (closed.void or closed.verified) and panel.standing is None and not panel.asker
        over = (ended or decided or panel.is_settled) and not panel.votes_on_slash
        ensure(not over, f"order {order_id.hex()} still has the pot of a panel that is over")


def check_slashes(store: Overlay, _: Running) -> None:
    """Check the stake that is reserved for votes on slashes, and that each vote and each jail will end."""
    reserved: Counter[str] = Counter()
    lots = {(purpose.decode(), subject_id) for purpose, subject_id in LOTS.keys(store)}
    for panel in PANELS.scan(store):
        if panel.votes_on_slash:
            name = f"the vote on a slash for round {panel.round} of order {panel.order_id.hex()}"
            ensure(ROUNDS.must(store, *panel.round_key).void, f"{name} is about a round that is not void")
            key = lot_key(PanelSubject(panel.key, panel.stage + 1))
            ensure(panel.is_open or tuple(key) in lots, f"{name} will not end")
            reserved[LEGS.must(store, panel.order_id, panel.leg).validator] += panel.slash
    held = Counter({load.validator: load.slash for load in LOADS.scan(store) if load.slash})
    ensure(held == reserved, "the stake that votes on slashes may take is not what they reserve")
    for validator in VALIDATORS.scan(store):
        until = validator.jailed_until
        ensure(validator.jailed or not until, f"{validator.operator} has an end of its jail, but is free")
        due = DEADLINES.has(store, JAIL_DUE.lane, until, JAIL_DUE.number, validator.operator)
        ensure(due or not until, f"the queue will not release {validator.operator}")


def check_fetches(store: Overlay, order: Order) -> None:
    """Check that an order has one panel about bytes at a time, and a bond for each panel about a result."""
    name = order.id.hex()
    asked = [panel for panel in PANELS.scan(store, order.id) if panel.asker and not panel.is_settled]
    results = {tuple(panel.key) for panel in asked if panel.places[0].place.kind is AuditKind.RESULT}
    rows = {
        (order.id, row.leg, row.round, row.issue)
        for row in BOND_ROWS.scan(store, order.id)
        if row.kind is BondKind.RESULT
    }
    # An order that was held for too long may close, and returns its bonds, before such a panel is over.
    ended = order.state is OrderState.CLOSED or TALLIES.must(store, order.id).ending != 0
    ensure(rows == results or (ended and not rows), f"order {name} has wrong bonds for panels about results")
    ensure(len(asked) <= 1 or ended, f"order {name} has two panels about bytes at once")


def check_appeals(store: Overlay, order: Order) -> None:
    """Check that the queue ends each ruling that can be appealed, and that bonds of appeals belong to such panels."""
    name = order.id.hex()
    panels = PANELS.scan(store, order.id)
    for panel in panels:
        due = (APPEAL_DUE.lane, panel.appeal_until, APPEAL_DUE.number, *panel.key)
        ensure(not panel.awaits_appeal or DEADLINES.has(store, *due), f"a ruling about order {name} will not end")
    appealed = {tuple(panel.key) for panel in panels if panel.appellant and not (panel.is_settled or panel.is_decided)}
    rows = {
        (order.id, row.leg, row.round, row.issue - 1)
        for row in BOND_ROWS.scan(store, order.id)
        if row.kind is BondKind.APPEAL
    }
    ensure(rows == appealed, f"the bonds of appeals of order {name} are not those of its appealed rulings")


def check_handovers(store: Overlay, order: Order) -> None:
    """Check that a leg with a proven complaint about its hand-over is over."""
    for leg in LEGS.scan(store, order.id):
        wrong = WRONG_HANDOVERS.has(store, order.id, leg.number)
        failed = leg.state is LegState.FAILED
        ensure(failed or not wrong, f"order {order.id.hex()} goes on after a proven complaint")


def check_taken(store: Overlay, order: Order) -> None:
    """Check that the deposit covers the refunds that the consumer gave up, and that only closed rounds were taken."""
    for leg in LEGS.scan(store, order.id):
        name = f"leg {leg.number} of order {order.id.hex()}"
        ensure(leg.taken_end <= leg.round, f"the consumer took a round of {name} that is not closed")
        rounds = (ROUNDS.must(store, order.id, leg.number, round) for round in range(leg.next_round, leg.taken_end))
        given_up = compute_round_cost(order, leg) * sum(1 for closed in rounds if not closed.void)
        escrow = ESCROWS.must(store, order.id)
        covered = given_up <= locked(escrow) - escrow.withheld
        ensure(covered, f"the deposit of order {order.id.hex()} does not cover the refunds that were given up")


def check_deliveries(store: Overlay, order: Order) -> None:
    """Check that a share whose key is shown counts as received, as long as its delivery is not shown to be wrong."""
    for delivery in DELIVERIES.scan(store, order.id):
        share = SHARES.must(store, *delivery.share)
        name = f"share {delivery.slot}/{delivery.issue} of order {order.id.hex()}"
        ensure((delivery.key != b"") == (delivery.roots is not None), f"{name} has a key without roots, or no key")
        if delivery.is_wrong:
            ensure(not share.is_received, f"{name} counts as received, but its delivery is wrong")
        elif delivery.key:
            ensure(share.is_received, f"{name} has a shown key, but does not count as received")


def check_funds(store: Overlay, order: Order) -> None:
    """Check the count of funds for right shares of void rounds, and that each fund knows the sum of its claims."""
    name = order.id.hex()
    funds = list(VOID_FUNDS.scan(store, order.id))
    counted = TALLIES.must(store, order.id).funds
    ensure(counted == len(funds), f"order {name} counts {counted} funds, not {len(funds)}")
    for fund in funds:
        claims = sum(value for _, value in VOID_CLAIMS.scan(store, order.id, fund.leg))
        is_known = claims <= fund.right if fund.is_paying else claims == fund.right
        ensure(is_known, f"a fund of order {name} has claims of {claims}, not {fund.right}")
    waiting = {leg for _, leg, *_ in VOID_CLAIMS.keys(store, order.id)}
    ensure(len(waiting) <= len(funds), f"order {name} has claims without a fund")


INVARIANTS = Invariants(
    whole=(check_audit_pots, check_queue, check_deadlines, check_room, check_duties, check_slashes),
    each=(
        Each(
            ORDERS,
            (
                check_rounds,
                check_shares,
                check_taken_shares,
                check_held_shares,
                check_open_rounds,
                check_panels,
                check_appeals,
                check_fetches,
                check_handovers,
                check_taken,
                check_deliveries,
                check_funds,
            ),
        ),
    ),
)

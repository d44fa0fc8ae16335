"""The assignment of slots to providers: the plan of a round, the time for a share, and new issues after a failure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from domain.amount import ceil_div, price_ceil
from domain.hashing import hash_fields, u32
from domain.legs.records import Leg
from domain.proof.reasons import ShareReason
from pol.rules.cover import is_covered
from pol.rules.lots import draw
from pol.rules.schedule import segment_work, share_segments, share_work
from pol.rules.tiers.table import least_multiple, tier_of
from validator.decide.admission import UNCOVERED, Backing
from validator.decide.initial import initial_state
from validator.decide.pace import paced, unshown
from validator.decide.plan import FreeProvider, plan_slots, spread_slots
from validator.decide.records import LocalOrder, LocalRound, SlotWork
from validator.decide.taking import awaited_slots, next_issue
from validator.decide.view import View

OWN_PICKS = 1
"""Number of segments of a share that the validator itself chooses to replay. A provider cannot predict the choice."""
ALARM_PICKS = 4
"""Number of segments of a share that it replays besides if there is an alarm (:mod:`validator.decide.alarms`)."""
ANCHORS_MAX = 6
"""Largest number of boundaries of a share that are kept for recomputations."""
RECOMPUTE_SECONDS = 600
"""Longest time of a recomputation; a process of the pool has no more time."""
WINDOW_PART = 7
"""The part of a round's window within which each state must be recomputed, because a seat does not wait longer for
it.
"""
RECOMPUTE_SLACK = 4
"""Factor by which the time of a recomputation at the bid's speed is multiplied, because this machine may be slower than
the bid, or busy.
"""
PATIENCE = 20
"""Chain seconds that even the smallest share may take, because the provider has to start a process and perhaps load
torch.
"""
PATIENCES = 20
"""Any share may take at least ``progress_base`` (the base of the progress deadline) divided by this number."""
DOUBLINGS_MAX = 10


def open_round(local: LocalOrder, view: View, leg: Leg) -> LocalOrder:
    """Add the leg's open round to the record, if its initial global state is here and a provider is present.

    No slot of the round is assigned yet.
    """
    round = leg.round
    if any(known.round == round for known in local.rounds):
        return local
    opening = initial_state(local, leg)
    if opening is None or not _usable(local, view):
        return local
    planned = LocalRound(
        round=round,
        global_in=opening,
        works=(),
        next_global=None,
        suspects=(),
        audit_by=0,
        sealed=None,
    )
    return replace(local, rounds=(*local.rounds, planned))


def _usable(local: LocalOrder, view: View) -> list[FreeProvider]:
    """Return the present providers that may get work of this order."""
    return [worker for worker in view.workers if worker.address not in local.excluded]


def renew(local: LocalOrder, work: SlotWork, view: View) -> SlotWork:
    """Move the deadline of a task, if less than half of a term is left and its provider is there.

    The deadline is also moved if no other provider could take the slot. It is never moved back, and the slot is not
    given to another provider before it: until then, the provider can put its share on chain itself and be paid.
    """
    usable = {worker.address for worker in _usable(local, view)}
    if usable and work.provider not in usable:
        return work
    term = _first_term(view, work.wait_until - work.given_at)
    if work.answer_by - view.clock > term // 2:
        return work
    moved = min(view.clock + term, work.wait_until)
    return work if moved == work.answer_by else replace(work, answer_by=moved)


def _first_term(view: View, longest: int) -> int:
    """Return the seconds from the signature of a task to its deadline, if its provider may take ``longest`` seconds.

    A provider that vanishes delays its slot by this time at most. It is enough for a provider that trains half as fast
    as expected, so that a provider that cannot reach its validator can include its share.
    """
    return max(min(_least_patience(view), longest), longest // 2)


def _least_failed(workers: Sequence[FreeProvider], failures: Mapping[str, int]) -> list[FreeProvider]:
    """Return the workers with the fewest failures in this order.

    The other workers get work only if all workers with the fewest failures are away.
    """
    least = min((failures.get(worker.address, 0) for worker in workers), default=0)
    return [worker for worker in workers if failures.get(worker.address, 0) == least]


def _failures(local: LocalOrder) -> dict[str, int]:
    """Return the number of each provider's failures in this order, keyed by the provider's address."""
    counts = {item.provider: item.count for item in local.failures}
    for known in local.rounds:
        for work in known.works:
            if work.verdict:
                counts[work.provider] = counts.get(work.provider, 0) + 1
    return counts


def _waiting(works: Iterable[SlotWork]) -> dict[str, int]:
    """Return the number of shares that each provider still has to train, keyed by the provider's address."""
    counts: dict[str, int] = {}
    for work in works:
        if work.signed is None and not work.verdict:
            counts[work.provider] = counts.get(work.provider, 0) + 1
    return counts


def new_work(
    local: LocalOrder,
    view: View,
    leg: Leg,
    slot: int,
    provider: str,
    before: int,
    issue: int = 1,
) -> SlotWork:
    """Return a new issue of a slot for a provider that has ``before`` shares to train first."""
    initial = local.payload.initial_local
    local_in = next((s.state for s in local.locals if s.slot == slot), initial)
    if local_in is None:
        raise AssertionError("work is assigned, although the payload is not loaded")
    longest = _patience(local, view, leg, provider, before, issue)
    return SlotWork(
        slot=slot,
        issue=issue,
        provider=provider,
        local_in=local_in,
        answer_by=view.clock + _first_term(view, longest),
        signed=None,
        deliver_by=0,
        packet=None,
        open_by=0,
        picks=pick_segments(view, leg, slot, issue, "assay/own-picks", OWN_PICKS),
        spare=pick_segments(view, leg, slot, issue, "assay/alarm-picks", ALARM_PICKS),
        expected=_expected(view, provider, share_work(view.on_chain.order.terms)),
        anchors=anchors_of(view, leg),
        openings=(),
        checked=(),
        broken=(),
        verdict=ShareReason.NONE,
        settled=False,
        given_at=view.clock,
        wait_until=view.clock + longest,
        backing=_backing(view, leg, provider, before),
        at_once=next((w.slots for w in view.workers if w.address == provider), 1),
    )


def _backing(view: View, leg: Leg, provider: str, before: int) -> Backing:
    """Return what a task states about its bonds: the operator's decision, and at least the bond that the tier needs.

    If the order takes credentials, it is the bond that the lower chance of a panel needs, as long as all providers have
    credentials and can lock it. Otherwise the chance would not be lower, and the higher bond would have no use.
    """
    order = view.on_chain.order
    backing = next((w.backing for w in view.workers if w.address == provider), UNCOVERED)
    least = least_multiple(order, leg)
    if order.conditions.attested:
        raised = least_multiple(order, leg, attested=True)
        bond = raised * price_ceil(share_work(order.terms), leg.price)
        needed = {provider: (before + 1) * bond}
        if all(worker.attested_bond >= needed.get(worker.address, bond) for worker in view.workers):
            least = raised
    return replace(backing, multiple=max(backing.multiple, least))


def _patience(local: LocalOrder, view: View, leg: Leg, provider: str, before: int, issue: int) -> int:
    """Return the chain seconds within which the commitment to a share has to arrive if its provider stays present.

    This time depends on the share's position in its provider's queue, on the bytes to fetch, and on the provider's
    speed. It doubles with each issue, in case all machines are slower than their certified speeds. It is at most two
    thirds of the time until the progress deadline, so that other providers can still take over.
    """
    terms = view.on_chain.order.terms
    worker = next((w for w in view.workers if w.address == provider), FreeProvider(provider, 0))
    place = before + 1
    expected = int(worker.seconds(place, share_work(terms)))
    base = _least_patience(view)
    transfer = transfer_seconds(view, states=2 * place, more=terms.delivered_bytes)
    limit = max(PATIENCE, 2 * (leg.progress_deadline - view.clock) // 3)
    wanted = place * base + 4 * expected
    return min((wanted << min(issue - 1, DOUBLINGS_MAX)) + transfer, limit)


def _least_patience(view: View) -> int:
    """Return the least time for any share: the chain seconds that even the smallest share may take."""
    return max(PATIENCE, view.on_chain.order.params.progress_base // PATIENCES)


def transfer_seconds(view: View, states: int, more: int = 0) -> int:
    """Return the seconds to transfer ``states`` pairs of states and ``more`` bytes at the chain's ``accept_rate``."""
    terms = view.on_chain.order.terms
    pair = terms.global_bytes + terms.local_bytes
    return (states * pair + more) // view.on_chain.order.params.accept_rate


def _expected(view: View, provider: str, work: int) -> int:
    """Return the seconds that a provider needs for ``work`` FLOPs by its certified speed; 0 if it has left."""
    worker = next((w for w in view.workers if w.address == provider), None)
    return int(worker.seconds(1, work)) if worker is not None and worker.speed else 0


def pick_segments(view: View, leg: Leg, slot: int, issue: int, tag: str, count: int) -> tuple[int, ...]:
    """Return segments of a share that the validator replays by its own choice, drawn with its secret and a tag.

    Each kind of pick has its own draw. A draw is sorted, so the first numbers of a larger one would be low.
    """
    numbers = (leg.number, leg.round, slot, issue)
    seed = hash_fields(tag, view.secret, leg.order_id, *(u32(n) for n in numbers))
    return draw(seed, share_segments(view.on_chain.order.terms), count)


def anchors_of(view: View, leg: Leg) -> tuple[int, ...]:
    """Return the boundaries of each share whose states this validator keeps, even if it replays no segment near them.

    A panel may draw any segment, and the segment's provider may then send nothing. So the validator has to recompute
    the segment's initial state in time, from the nearest boundary before the segment. Therefore two neighbouring
    boundaries are near enough for this machine to recompute the segments between them in a part of the window. But
    there are at most ``ANCHORS_MAX`` boundaries.

    No one can recompute hardware arithmetic bit by bit, so a share in a tier with it delivers all its boundaries.
    """
    order = view.on_chain.order
    count = share_segments(order.terms)
    if tier_of(leg).hardware:
        return tuple(range(1, count))
    seconds = min(RECOMPUTE_SECONDS, order.window // WINDOW_PART)
    every = seconds * leg.slot_speed // (RECOMPUTE_SLACK * segment_work(order.terms))
    every = max(every, ceil_div(count, ANCHORS_MAX + 1))
    return tuple(range(every, count, every))


def give_out(
    local: LocalOrder,
    view: View,
    leg: Leg,
    works: Sequence[SlotWork],
    proven: Collection[tuple[int, int]],
) -> list[SlotWork]:
    """Return new issues for the slots that have no provider, and for the slots whose latest issue failed.

    A failed slot goes to another provider if possible. A newcomer may have only a few slots at once. An issue counts
    towards that limit until it has failed or its (slot, issue) is in ``proven``. If all present providers are newcomers
    at their limit, the slots wait.
    """
    latest = {work.slot: work for work in works}
    highest: dict[int, int] = {}
    for work in works:
        highest[work.slot] = max(work.issue, highest.get(work.slot, 0))
    usable = [worker for worker in _usable(local, view) if _takes(worker, view, leg)]
    usable = paced(usable, local, view.on_chain.order.terms)
    failures = _failures(local)
    waiting = _waiting(latest.values())
    least = _least_failed(usable, failures)
    room = _room(view, usable, latest.values(), proven)
    issued: list[SlotWork] = []

    def give(slot: int, provider: str, issue: int) -> None:
        before = waiting.get(provider, 0)
        waiting[provider] = before + 1
        if provider in room:
            room[provider] -= 1
        issued.append(new_work(local, view, leg, slot, provider, before, issue))

    for slot in sorted(latest):
        failed = latest[slot]
        if failed.verdict:
            others = [worker for worker in least if worker.address != failed.provider]
            for provider in plan_slots([slot], others or least, waiting, {}, room).values():
                give(slot, provider, highest[slot] + 1)
    awaited = awaited_slots(view.on_chain, leg)
    unserved = [slot for slot in leg.served_slots if slot not in latest and slot not in awaited]
    last = {work.slot: work.provider for known in local.rounds for work in known.works}
    plan = plan_slots(unserved, least, waiting, last, room)
    for slot, provider in spread_slots(plan, least, waiting, unshown(least, local), room).items():
        give(slot, provider, next_issue(view.on_chain, leg, slot))
    return issued


def _takes(worker: FreeProvider, view: View, leg: Leg) -> bool:
    """Return whether a provider takes shares of the open round, although earlier rounds may become void."""
    if not worker.cautious:
        return True
    ahead = leg.closed - leg.verified
    return is_covered(view.on_chain.order, leg, worker.backing.multiple, worker.backing.cover, ahead)


def _room(
    view: View,
    workers: Iterable[FreeProvider],
    works: Iterable[SlotWork],
    proven: Collection[tuple[int, int]],
) -> dict[str, int]:
    """Return the number of further slots that each newcomer may have, keyed by the newcomer's address."""
    counts: dict[str, int] = {}
    for work in works:
        if not work.verdict and (work.slot, work.issue) not in proven:
            counts[work.provider] = counts.get(work.provider, 0) + 1
    most = view.on_chain.order.params.newcomer_slots
    return {w.address: max(0, most - counts.get(w.address, 0)) for w in workers if w.newcomer}

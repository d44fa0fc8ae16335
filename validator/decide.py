"""What a validator does about an order that it won: a pure function of what it holds, the chain says, and the time.

``decide`` is asked again and again, with whatever has arrived since. It returns the new record and every action whose
outcome is still missing; actions have keys, and the shell (:mod:`validator.daemon`) does not start one twice while it
is under way. So a restart needs nothing but the record: what was under way is simply asked for again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from chain.types.hashing import hash_fields, u32
from chain.types.messages import (
    Message,
    MsgAcceptOrder,
    MsgCloseRound,
    MsgCommitTraces,
    MsgDeclineOrder,
    MsgProve,
    MsgReportProvider,
    Rejection,
    SignedShare,
)
from chain.types.queries import OrderResponse
from chain.types.reasons import AttemptEnd, ShareReason
from chain.types.records import (
    Assignment,
    AssignmentState,
    AuditKind,
    JobTerms,
    Share,
    ShareRef,
    ShareState,
)
from cluster.types import ShareSubmission, StateRef
from pol.rules.lots import draw, duty_places
from pol.rules.schedule import segment_samples, segments_of, share_work
from validator.plan import Part, Worker, pick_worker, split_round
from validator.records import (
    LocalOrder,
    LocalRound,
    PayloadStage,
    SlotLocal,
    SlotWork,
)
from validator.traces import trace_leaf_of

OWN_PICKS = 1
"""Segments of a share that the validator replays beside its duty; nobody can tell them apart from drawn ones."""
PATIENCE = 8
"""Chain seconds that any share may take, however small it is."""
OPEN_SECONDS = 10
"""Chain seconds a provider has to upload the states it is asked for."""
AUDIT_ASK_SECONDS = 3
"""Chain seconds a provider is asked for audited states before the validator recomputes them."""
PROVABLE = frozenset({ShareReason.SEGMENT_MISMATCH, ShareReason.UPDATE_MISMATCH})
"""Reasons that Merkle evidence shows to any node: reported; all others are rejected."""
FORGIVEN = frozenset({ShareReason.NO_ANSWER, ShareReason.LATE})
"""Reasons after which a provider may be tried again in the same order, behind those that never failed."""


@dataclass(frozen=True, slots=True)
class View:
    """What the daemon sees besides its own record.

    ``clock`` is the chain clock in seconds, ``workers`` are the providers that poll and may take work, ``secret``
    seeds the validator's own picks.
    """

    chain: OrderResponse
    clock: int
    me: str
    chain_id: str
    workers: tuple[Worker, ...]
    secret: bytes


@dataclass(frozen=True, slots=True)
class LoadJob:
    """Load the payload in the pool and compare it with the order."""

    key: str


@dataclass(frozen=True, slots=True)
class SendTx:
    """Send a transaction with these messages."""

    key: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class CheckPlace:
    """Replay a place of a share in the pool: segment ``place``, or the update where ``place`` is n."""

    key: str
    round: int
    slot: int
    issue: int
    place: int


@dataclass(frozen=True, slots=True)
class Recompute:
    """Recompute the states at a boundary that an audit needs, because no provider brought them."""

    key: str
    round: int
    slot: int
    issue: int
    index: int


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Aggregate the accepted updates of a round."""

    key: str
    round: int


@dataclass(frozen=True, slots=True)
class Seal:
    """Encrypt the result to the order's key."""

    key: str


Action = LoadJob | SendTx | CheckPlace | Recompute | Aggregate | Seal


def decide(local: LocalOrder, view: View) -> tuple[LocalOrder, tuple[Action, ...]]:
    """Return the record as it is now, and every action whose outcome is missing."""
    assignment = find_assignment(view.chain, local.attempt)
    if assignment is None:
        return local, ()
    prefix = f"{local.order_id.hex()}/{local.attempt}"
    if assignment.state == AssignmentState.MATCHED:
        return local, _decide_matched(local, view, assignment, prefix)
    actions: list[Action] = []
    if assignment.state == AssignmentState.RUNNING:
        if assignment.round < view.chain.order.terms.rounds:
            local = _open_round(local, view, assignment)
            local, found = _decide_round(local, view, assignment, prefix)
        else:
            found = _decide_result(local, view, prefix)
        actions += found
    if assignment.state in (
        AssignmentState.RUNNING,
        AssignmentState.PROVEN,
        AssignmentState.FAILED,
    ):
        local, found = _decide_audited(local, view, prefix)
        actions += found
    return local, tuple(actions)


# Matched: take the payload, load it, accept or decline


def _decide_matched(
    local: LocalOrder, view: View, assignment: Assignment, prefix: str
) -> tuple[Action, ...]:
    order_id, attempt = local.order_id, local.attempt
    stage = local.payload.stage
    if stage == PayloadStage.COMPLETE:
        return (LoadJob(f"{prefix}/load"),)
    if stage == PayloadStage.LOADED:
        return (SendTx(f"{prefix}/accept", (MsgAcceptOrder(view.me, order_id, attempt),)),)
    if stage == PayloadStage.BAD:
        decline = MsgDeclineOrder(view.me, order_id, attempt, local.payload.decline)
        return (SendTx(f"{prefix}/decline", (decline,)),)
    # A missed deadline costs the whole job bond, a decline a fee: give up a little before.
    margin = max(3, (assignment.accept_deadline - assignment.matched_at) // 5)
    if view.clock < assignment.accept_deadline - margin:
        return ()
    undelivered = int(AttemptEnd.PAYLOAD_NOT_DELIVERED)
    decline = MsgDeclineOrder(view.me, order_id, attempt, undelivered)
    return (SendTx(f"{prefix}/decline", (decline,)),)


# Running: one round


def _open_round(local: LocalOrder, view: View, assignment: Assignment) -> LocalOrder:
    """Plan the open round when it has no plan, its opening state is held, and somebody is there to train."""
    number = assignment.round
    if any(done.number == number for done in local.rounds):
        return local
    opening = _opening_state(local, number)
    workers = _planned_workers(local, view)
    if opening is None or not workers:
        return local
    terms = view.chain.order.terms
    unit = segment_samples(terms)
    unit_work = share_work(terms, unit)
    units_max = max(1, view.chain.order.params.range_work_max // unit_work)
    parts = split_round(terms.samples_per_round, unit, units_max, workers)
    works: list[SlotWork] = []
    for part in parts:
        works.append(_new_work(local, view, assignment, part, _waiting(works, part.provider)))
    return replace(
        local, rounds=(*local.rounds, LocalRound(number, opening, tuple(works), None, 0))
    )


def _opening_state(local: LocalOrder, number: int) -> StateRef | None:
    if number == 0:
        return local.payload.initial_global
    return next((r.next_global for r in local.rounds if r.number == number - 1), None)


def _planned_workers(local: LocalOrder, view: View) -> list[Worker]:
    """Return who gets a range: those that never failed in this order, else those that may be tried again."""
    usable = [worker for worker in view.workers if worker.address not in local.excluded]
    failures = _failures(local)
    spotless = [worker for worker in usable if not failures.get(worker.address)]
    last = {work.provider: work.slot for done in local.rounds for work in done.works}
    return sorted(spotless or usable, key=lambda w: (last.get(w.address, len(last)), w.address))


def _failures(local: LocalOrder) -> dict[str, int]:
    counts: dict[str, int] = {}
    for done in local.rounds:
        for work in done.works:
            if work.verdict:
                counts[work.provider] = counts.get(work.provider, 0) + 1
    return counts


def _waiting(works: Iterable[SlotWork], provider: str) -> int:
    """Return the samples that ``provider`` still has to train."""
    return sum(
        work.count
        for work in works
        if work.provider == provider and work.packet is None and not work.verdict
    )


def _new_work(
    local: LocalOrder,
    view: View,
    assignment: Assignment,
    part: Part,
    before: int,
    issue: int = 1,
) -> SlotWork:
    """Assign a range to a provider that has ``before`` samples to train first.

    The time to answer follows what it has to do and its speed, but leaves a third of the progress deadline for others.
    """
    terms = view.chain.order.terms
    speed = next((w.speed for w in view.workers if w.address == part.provider), 0)
    expected = share_work(terms, before + part.count) // max(1, speed)
    least = PATIENCE * (1 + before // part.count)
    limit = max(PATIENCE, 2 * (assignment.progress_deadline - view.clock) // 3)
    patience = min(least + 4 * expected, limit)
    initial = local.payload.initial_local
    local_in = next((s.state for s in local.locals if s.slot == part.slot), initial)
    if local_in is None:
        raise AssertionError("work is assigned after the payload was loaded")
    return SlotWork(
        slot=part.slot,
        issue=issue,
        first=part.first,
        count=part.count,
        provider=part.provider,
        local_in=local_in,
        reset=local_in == initial,
        assigned_at=view.clock,
        answer_by=view.clock + patience,
        packet=None,
        open_by=0,
        picks=_own_picks(view, assignment, part.slot, issue, segments_of(terms, part.count)),
        openings=(),
        checked=(),
        verdict=ShareReason.NONE,
        settled=False,
    )


def _own_picks(
    view: View, assignment: Assignment, slot: int, issue: int, segments: int
) -> tuple[int, ...]:
    """Draw further segments with the validator's secret, away from first and last, which are always replayed."""
    numbers = (assignment.attempt, assignment.round, slot, issue)
    seed = hash_fields(
        "assay/own-picks", view.secret, assignment.order_id, *(u32(n) for n in numbers)
    )
    return tuple(1 + pick for pick in draw(seed, max(0, segments - 2), OWN_PICKS))


def _decide_round(
    local: LocalOrder, view: View, assignment: Assignment, prefix: str
) -> tuple[LocalOrder, list[Action]]:
    current = find_round(local, assignment.round)
    if current is None:
        return local, []
    actions: list[Action] = []
    shares = _shares_of(view, local.attempt, current.number)
    works: list[SlotWork] = []
    for work in current.works:
        advanced, found = _advance(
            work, shares.get((work.slot, work.issue)), view, local, prefix, current
        )
        works.append(advanced)
        actions += found
    local = _exclude(replace_round(local, replace(current, works=tuple(works))), works)
    works += _reissue(local, view, assignment, works)
    local = replace_round(local, replace(current, works=tuple(works)))
    actions += _decide_close(local, view, prefix, assignment.round, shares)
    return local, actions


def _advance(
    work: SlotWork,
    share: Share | None,
    view: View,
    local: LocalOrder,
    prefix: str,
    current: LocalRound,
) -> tuple[SlotWork, list[Action]]:
    """Move one share on: commit it, ask for openings, replay, and settle its verdict with the chain."""
    key = f"{prefix}/{current.number}/{work.slot}/{work.issue}"
    if work.verdict:
        return _settle(work, share, view, local, key, current)
    if work.packet is None:
        late = view.clock >= work.answer_by
        return (replace(work, verdict=ShareReason.NO_ANSWER, settled=True) if late else work), []
    if share is None:
        blocked = any(
            other.slot == work.slot and other.verdict and not other.settled
            for other in current.works
        )
        commit = _commit(view, local, current, shares=(_signed(work.packet),))
        return work, [] if blocked else [SendTx(f"{key}/commit", (commit,))]
    if share.state != ShareState.COMMITTED or not share.drawn:
        return work, []
    return _verify(work, share, view, key, current, view.chain.order.terms)


def _verify(
    work: SlotWork, share: Share, view: View, key: str, current: LocalRound, terms: JobTerms
) -> tuple[SlotWork, list[Action]]:
    """Ask for what the duty and the own picks need, and replay what has arrived."""
    actions: list[Action] = []
    if not work.open_by:
        work = replace(work, open_by=view.clock + OPEN_SECONDS)
    checked = {done.place: done for done in work.checked}
    failed = [done for done in work.checked if done.reason]
    if failed:
        # Prefer what Merkle evidence can show: it cuts the bond, a mere rejection does not.
        worst = min(failed, key=lambda done: (done.reason not in PROVABLE, done.place))
        return replace(work, verdict=worst.reason), []
    held = {opening.index for opening in work.openings}
    waiting = False
    for place in places_to_check(work, share):
        if place in checked:
            continue
        index = opening_index(place)
        if index and index not in held:
            waiting = True
        else:
            actions.append(
                CheckPlace(f"{key}/check/{place}", current.number, work.slot, work.issue, place)
            )
    if waiting and view.clock >= work.open_by:
        return replace(work, verdict=ShareReason.NO_ANSWER), []
    return work, actions


def places_to_check(work: SlotWork, share: Share) -> tuple[int, ...]:
    """Return the places of a share that this validator replays: its duty and its own picks, sorted."""
    return tuple(sorted({*duty_places(share.claim.segments, share.drawn), *work.picks}))


def opening_index(place: int) -> int:
    """Return the boundary whose states a place is replayed from: its start, and the end n for the update."""
    return place  # segment i starts at boundary i; the update (place n) is read from boundary n


def is_verified(work: SlotWork, share: Share | None) -> bool:
    """Tell whether everything that had to be replayed of a share was, and held."""
    if work.verdict or share is None or share.state != ShareState.COMMITTED or not share.drawn:
        return False
    held = {done.place for done in work.checked if not done.reason}
    return held.issuperset(places_to_check(work, share))


def _settle(
    work: SlotWork,
    share: Share | None,
    view: View,
    local: LocalOrder,
    key: str,
    current: LocalRound,
) -> tuple[SlotWork, list[Action]]:
    """Tell the chain about a verdict: a report where evidence shows it, else a rejection."""
    if work.settled:
        return work, []
    if share is None or share.state != ShareState.COMMITTED:
        return replace(work, settled=True), []
    evidence = next((done for done in work.checked if done.reason == work.verdict), None)
    if work.verdict in PROVABLE and evidence is not None and work.packet is not None:
        n = share.claim.segments
        pair = (0, n) if evidence.place == n else (evidence.place, evidence.place + 1)
        report = MsgReportProvider(
            view.me,
            local.order_id,
            local.attempt,
            current.number,
            ShareRef(work.slot, work.issue),
            evidence.place,
            tuple(trace_leaf_of(work.packet, index, view.chain_id) for index in pair),
            evidence.replayed_root,
        )
        return work, [SendTx(f"{key}/report", (report,))]
    rejection = Rejection(ShareRef(work.slot, work.issue), work.verdict)
    reject = _commit(view, local, current, rejections=(rejection,))
    return work, [SendTx(f"{key}/reject", (reject,))]


def _commit(
    view: View,
    local: LocalOrder,
    current: LocalRound,
    *,
    shares: tuple[SignedShare, ...] = (),
    rejections: tuple[Rejection, ...] = (),
) -> MsgCommitTraces:
    return MsgCommitTraces(
        view.me, local.order_id, local.attempt, current.number, rejections, shares
    )


def _signed(packet: ShareSubmission) -> SignedShare:
    return SignedShare(packet.claim, packet.signature)


def _exclude(local: LocalOrder, works: Iterable[SlotWork]) -> LocalOrder:
    """Give no further work in this order to a provider that did worse than being late."""
    bad = {w.provider for w in works if w.verdict and w.verdict not in FORGIVEN}
    return replace(local, excluded=tuple(sorted({*local.excluded, *bad})))


def _reissue(
    local: LocalOrder, view: View, assignment: Assignment, works: Sequence[SlotWork]
) -> list[SlotWork]:
    """Give every slot whose latest issue failed to somebody else."""
    latest = {work.slot: work for work in works}  # issues of a slot stand in ascending order
    usable = [worker for worker in view.workers if worker.address not in local.excluded]
    failures = _failures(local)
    load: dict[str, int] = {}
    for work in latest.values():
        if not work.verdict and work.packet is None:
            load[work.provider] = load.get(work.provider, 0) + 1
    issued: list[SlotWork] = []
    for slot in sorted(latest):
        failed = latest[slot]
        if not failed.verdict:
            continue
        provider = pick_worker(usable, load, failures)
        if provider:
            load[provider] = load.get(provider, 0) + 1
            part = Part(slot, failed.first, failed.count, provider)
            before = _waiting((*latest.values(), *issued), provider)
            issued.append(_new_work(local, view, assignment, part, before, failed.issue + 1))
    return issued


def _decide_close(
    local: LocalOrder,
    view: View,
    prefix: str,
    number: int,
    shares: dict[tuple[int, int], Share],
) -> list[Action]:
    """Aggregate when the latest issue of every slot is verified, then close the round."""
    current = find_round(local, number)
    if current is None:
        return []
    accepted = accepted_works(current)
    if not all(is_verified(work, shares.get((work.slot, work.issue))) for work in accepted):
        return []
    if current.next_global is None:
        return [Aggregate(f"{prefix}/{number}/aggregate", number)]
    refs = tuple(ShareRef(work.slot, work.issue) for work in accepted)
    close = MsgCloseRound(
        view.me, local.order_id, local.attempt, number, refs, current.next_global.root
    )
    return [SendTx(f"{prefix}/{number}/close", (close,))]


def accepted_works(current: LocalRound) -> tuple[SlotWork, ...]:
    """Return the latest issue of every slot, in slot order."""
    latest = {work.slot: work for work in current.works}
    return tuple(latest[slot] for slot in sorted(latest))


def aggregated(local: LocalOrder, number: int, next_global: StateRef) -> LocalOrder:
    """Record the aggregation of a round, and the local states that its slots go on with."""
    current = find_round(local, number)
    if current is None:
        return local
    after = {item.slot: item for item in local.locals}
    for work in accepted_works(current):
        if work.packet is not None:
            state = StateRef(work.packet.claim.local_out, work.packet.local_out)
            after[work.slot] = SlotLocal(work.slot, state)
    local = replace(local, locals=tuple(after[slot] for slot in sorted(after)))
    return replace_round(local, replace(current, next_global=next_global))


# The result


def _decide_result(local: LocalOrder, view: View, prefix: str) -> list[Action]:
    last = find_round(local, view.chain.order.terms.rounds - 1)
    if last is None or last.next_global is None:
        return []
    if local.result is None:
        return [Seal(f"{prefix}/seal")]
    prove = MsgProve(
        view.me,
        local.order_id,
        local.attempt,
        last.next_global.root,
        local.result.ciphertext_root,
        len(local.result.points),
    )
    return [SendTx(f"{prefix}/prove", (prove,))]


# Audits of closed rounds by others


def audited_boundaries(
    local: LocalOrder, chain: OrderResponse
) -> dict[tuple[int, int, int], set[int]]:
    """Return the boundaries that auditors need and this validator does not hold, by (round, slot, issue)."""
    wanted: dict[tuple[int, int, int], set[int]] = {}
    for audit in chain.audits:
        current = find_round(local, audit.round)
        if audit.attempt != local.attempt or current is None:
            continue
        works = {(work.slot, work.issue): work for work in current.works}
        for place in audit.places:
            work = works.get((place.slot, place.issue))
            if place.kind == AuditKind.AGGREGATION or work is None or place.segment == 0:
                continue  # boundary 0 is the round's own opening, which is held
            if place.segment not in {opening.index for opening in work.openings}:
                key = (audit.round, place.slot, place.issue)
                wanted.setdefault(key, set()).add(place.segment)
    return wanted


def _decide_audited(local: LocalOrder, view: View, prefix: str) -> tuple[LocalOrder, list[Action]]:
    """Have the audited states at hand: ask their providers for a moment, then recompute them."""
    actions: list[Action] = []
    for (number, slot, issue), indices in sorted(audited_boundaries(local, view.chain).items()):
        current = find_round(local, number)
        if current is None:
            continue
        if not current.audit_by:
            current = replace(current, audit_by=view.clock + AUDIT_ASK_SECONDS)
            local = replace_round(local, current)
        work = next(w for w in current.works if (w.slot, w.issue) == (slot, issue))
        present = any(worker.address == work.provider for worker in view.workers)
        if present and view.clock < current.audit_by:
            continue
        actions += [
            Recompute(
                f"{prefix}/{number}/{slot}/{issue}/recompute/{index}", number, slot, issue, index
            )
            for index in sorted(indices)
        ]
    return local, actions


# Looking things up


def find_assignment(chain: OrderResponse, attempt: int) -> Assignment | None:
    """Return the assignment of an attempt."""
    return next((a for a in chain.assignments if a.attempt == attempt), None)


def find_round(local: LocalOrder, number: int) -> LocalRound | None:
    """Return the record of a round."""
    return next((current for current in local.rounds if current.number == number), None)


def replace_round(local: LocalOrder, changed: LocalRound) -> LocalOrder:
    """Return the record with one round replaced."""
    rounds = tuple(changed if r.number == changed.number else r for r in local.rounds)
    return replace(local, rounds=rounds)


def _shares_of(view: View, attempt: int, number: int) -> dict[tuple[int, int], Share]:
    return {
        (share.claim.slot, share.claim.issue): share
        for share in view.chain.shares
        if share.claim.attempt == attempt and share.claim.round == number
    }

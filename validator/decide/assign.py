"""Who trains what: the plan of a round, the time that is given, and who takes over what failed."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from domain.hashing import hash_fields, u32
from domain.limits import SLOTS_MAX
from domain.reasons import ShareReason
from domain.records import Assignment, Order
from link.types import LEAVES_MAX, StateRef
from pol.rules.lots import draw
from pol.rules.schedule import segment_samples, segments_of, share_work
from validator.decide.plan import Part, Worker, pick_worker, split_round
from validator.decide.records import LocalOrder, LocalRound, SlotWork
from validator.decide.view import View

OWN_PICKS = 1
"""Segments of a share that the validator replays beside its duty; nobody can tell them apart from drawn ones."""
PATIENCE = 8
"""Chain seconds that any share may take, however small it is: a process has to start, perhaps with torch."""
PATIENCES = 20
"""How many times a chain whose progress deadlines are long waits for small shares in one of them."""
DOUBLINGS_MAX = 10


def can_be_served(order: Order) -> bool:
    """Tell whether a round divides into as many ranges as the chain takes."""
    segments = segments_of(order.terms, order.terms.samples_per_round)
    return segments <= SLOTS_MAX * _units_max(order)


def _units_max(order: Order) -> int:
    """Return the segments in a range at most: what an auditor can replay, and what a message holds."""
    units = order.params.range_work_max // share_work(order.terms, segment_samples(order.terms))
    return max(1, min(units, LEAVES_MAX - 1))  # n segments have n + 1 leaves


def open_round(local: LocalOrder, view: View, assignment: Assignment) -> LocalOrder:
    """Plan the open round when it has no plan, its opening state is held, and somebody is there to train."""
    round = assignment.round
    if any(known.round == round for known in local.rounds):
        return local
    opening = _opening_state(local, round)
    workers = _planned_workers(local, view)
    if opening is None or not workers:
        return local
    terms = view.on_chain.order.terms
    unit, units_max = segment_samples(terms), _units_max(view.on_chain.order)
    works: list[SlotWork] = []
    for part in split_round(terms.samples_per_round, unit, units_max, workers):
        works.append(new_work(local, view, assignment, part, _waiting(works, part.provider)))
    planned = LocalRound(round, opening, tuple(works), None, (), 0)
    return replace(local, rounds=(*local.rounds, planned))


def _opening_state(local: LocalOrder, round: int) -> StateRef | None:
    if round == 0:
        return local.payload.initial_global
    return next((r.next_global for r in local.rounds if r.round == round - 1), None)


def _planned_workers(local: LocalOrder, view: View) -> list[Worker]:
    """Return who gets a range: those that never failed in this order, else those that may be tried again."""
    usable = _usable(local, view)
    failures = _failures(local)
    spotless = [worker for worker in usable if not failures.get(worker.address)]
    last = {work.provider: work.slot for known in local.rounds for work in known.works}
    return sorted(spotless or usable, key=lambda w: (last.get(w.address, len(last)), w.address))


def _usable(local: LocalOrder, view: View) -> list[Worker]:
    return [worker for worker in view.workers if worker.address not in local.excluded]


def _failures(local: LocalOrder) -> dict[str, int]:
    counts = {item.provider: item.count for item in local.failures}
    for known in local.rounds:
        for work in known.works:
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


def new_work(
    local: LocalOrder, view: View, assignment: Assignment, part: Part, before: int, issue: int = 1
) -> SlotWork:
    """Assign a range to a provider that has ``before`` samples to train first."""
    initial = local.payload.initial_local
    local_in = next((s.state for s in local.locals if s.slot == part.slot), initial)
    if local_in is None:
        raise AssertionError("work is assigned after the payload was loaded")
    segments = segments_of(view.on_chain.order.terms, part.count)
    return SlotWork(
        slot=part.slot,
        issue=issue,
        first=part.first,
        count=part.count,
        provider=part.provider,
        local_in=local_in,
        reset=local_in == initial,
        answer_by=view.clock + _patience(local, view, assignment, part, before, issue),
        packet=None,
        open_by=0,
        picks=_own_picks(view, assignment, part.slot, issue, segments),
        openings=(),
        checked=(),
        broken=(),
        verdict=ShareReason.NONE,
        settled=False,
    )


def _patience(
    local: LocalOrder, view: View, assignment: Assignment, part: Part, before: int, issue: int
) -> int:
    """Return the chain seconds in which a share has to be here.

    They follow what its provider has to fetch and to train and its speed, and double with each issue, in case all
    machines are slower than they say; but they leave a third of the progress deadline for others.
    """
    terms, params = view.on_chain.order.terms, view.on_chain.order.params
    speed = next((w.speed for w in view.workers if w.address == part.provider), 0)
    expected = share_work(terms, before + part.count) // max(1, speed)
    base = max(PATIENCE, params.progress_base // PATIENCES)
    transfer = transfer_seconds(local, view, states=2, more=terms.payload_bytes)
    limit = max(PATIENCE, 2 * (assignment.progress_deadline - view.clock) // 3)
    wanted = base * (1 + before // part.count) + 4 * expected
    return min((wanted << min(issue - 1, DOUBLINGS_MAX)) + transfer, limit)


def transfer_seconds(local: LocalOrder, view: View, states: int, more: int = 0) -> int:
    """Return the seconds that so many pairs of states take at the rate at which payloads are accepted."""
    blobs = (local.payload.initial_global, local.payload.initial_local)
    pair = sum(state.blob.size for state in blobs if state is not None)
    return (states * pair + more) // view.on_chain.order.params.accept_rate


def _own_picks(
    view: View, assignment: Assignment, slot: int, issue: int, segments: int
) -> tuple[int, ...]:
    """Draw further segments with the validator's secret, away from first and last, which are always replayed."""
    numbers = (assignment.attempt, assignment.round, slot, issue)
    seed = hash_fields(
        "assay/own-picks", view.secret, assignment.order_id, *(u32(n) for n in numbers)
    )
    return tuple(1 + pick for pick in draw(seed, max(0, segments - 2), OWN_PICKS))


def reissue(
    local: LocalOrder, view: View, assignment: Assignment, works: Sequence[SlotWork]
) -> list[SlotWork]:
    """Give every slot whose latest issue failed to somebody else."""
    latest = {work.slot: work for work in works}  # issues of a slot stand in ascending order
    usable = _usable(local, view)
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
            issued.append(new_work(local, view, assignment, part, before, failed.issue + 1))
    return issued

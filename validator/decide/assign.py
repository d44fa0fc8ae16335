"""Who trains which slot: the plan of a round, the time that is given, and who takes over what failed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from domain.hashing import hash_fields, u32
from domain.legs.records import Leg
from domain.proof.reasons import ShareReason
from pol.rules.lots import draw
from pol.rules.schedule import share_segments, share_work
from validator.decide.openings import opening_state
from validator.decide.pace import paced, unshown
from validator.decide.plan import FreeProvider, plan_slots, spread_slots
from validator.decide.records import LocalOrder, LocalRound, SlotWork
from validator.decide.view import View

OWN_PICKS = 1
"""Segments of a share that the validator replays beside its duty; nobody can tell them apart from drawn ones."""
PATIENCE = 20
"""Chain seconds that any share may take, however small it is: a process has to start, perhaps with torch."""
PATIENCES = 20
"""How many times a chain whose progress deadlines are long waits for small shares in one of them."""
DOUBLINGS_MAX = 10


def open_round(local: LocalOrder, view: View, leg: Leg) -> LocalOrder:
    """Begin the open round when its opening state is held and somebody is there to train; nobody has a slot yet."""
    round = leg.round
    if any(known.round == round for known in local.rounds):
        return local
    opening = opening_state(local, leg)
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
    """Return who is there and may have work of this order."""
    return [worker for worker in view.workers if worker.address not in local.excluded]


def note_presence(work: SlotWork, view: View) -> SlotWork:
    """Write down since when the provider is not there that has a share to train, or that it is again."""
    there = any(worker.address == work.provider for worker in view.workers)
    missed_at = 0 if there else work.missed_at or view.clock
    return work if missed_at == work.missed_at else replace(work, missed_at=missed_at)


def is_gone(local: LocalOrder, work: SlotWork, view: View) -> bool:
    """Tell whether a share's provider was away for a quarter of the time that it had left, and somebody else is there.

    It may be back in a moment with what it has trained, so it is waited for as long as for any share.
    """
    if not work.missed_at or all(w.address == work.provider for w in _usable(local, view)):
        return False
    patience = max(_least_patience(view), (work.answer_by - work.missed_at) // 4)
    return view.clock >= max(work.missed_at, view.since) + patience


def _least_failed(workers: Sequence[FreeProvider], failures: Mapping[str, int]) -> list[FreeProvider]:
    """Return those that failed least often in this order: the others are tried when these are not there."""
    least = min((failures.get(worker.address, 0) for worker in workers), default=0)
    return [worker for worker in workers if failures.get(worker.address, 0) == least]


def _failures(local: LocalOrder) -> dict[str, int]:
    counts = {item.provider: item.count for item in local.failures}
    for known in local.rounds:
        for work in known.works:
            if work.verdict:
                counts[work.provider] = counts.get(work.provider, 0) + 1
    return counts


def _waiting(works: Iterable[SlotWork]) -> dict[str, int]:
    """Return how many shares each provider still has to train."""
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
    """Assign a slot to a provider that has ``before`` shares to train first."""
    initial = local.payload.initial_local
    local_in = next((s.state for s in local.locals if s.slot == slot), initial)
    if local_in is None:
        raise AssertionError("work is assigned after the payload was loaded")
    return SlotWork(
        slot=slot,
        issue=issue,
        provider=provider,
        local_in=local_in,
        answer_by=view.clock + _patience(local, view, leg, provider, before, issue),
        signed=None,
        deliver_by=0,
        packet=None,
        open_by=0,
        picks=_own_picks(view, leg, slot, issue),
        openings=(),
        checked=(),
        broken=(),
        verdict=ShareReason.NONE,
        settled=False,
        given_at=view.clock,
    )


def _patience(local: LocalOrder, view: View, leg: Leg, provider: str, before: int, issue: int) -> int:
    """Return the chain seconds in which a share has to be here.

    They follow its place in its provider's queue, what that has to fetch and its speed, and double with each issue, in
    case all machines are slower than they say; but they leave a third of the progress deadline for others.
    """
    terms = view.on_chain.order.terms
    speed = next((w.speed for w in view.workers if w.address == provider), 0)
    place = before + 1
    expected = place * share_work(terms) // max(1, speed)
    base = _least_patience(view)
    transfer = transfer_seconds(view, states=2 * place, more=terms.delivered_bytes)
    limit = max(PATIENCE, 2 * (leg.progress_deadline - view.clock) // 3)
    wanted = place * base + 4 * expected
    return min((wanted << min(issue - 1, DOUBLINGS_MAX)) + transfer, limit)


def _least_patience(view: View) -> int:
    """Return the chain seconds that any share may take."""
    return max(PATIENCE, view.on_chain.order.params.progress_base // PATIENCES)


def transfer_seconds(view: View, states: int, more: int = 0) -> int:
    """Return the seconds that so many pairs of states take at the rate at which payloads are accepted."""
    terms = view.on_chain.order.terms
    pair = terms.global_bytes + terms.local_bytes
    return (states * pair + more) // view.on_chain.order.params.accept_rate


def _own_picks(view: View, leg: Leg, slot: int, issue: int) -> tuple[int, ...]:
    """Draw further segments with the validator's secret, away from first and last, which are always replayed."""
    numbers = (leg.number, leg.round, slot, issue)
    seed = hash_fields("assay/own-picks", view.secret, leg.order_id, *(u32(n) for n in numbers))
    segments = share_segments(view.on_chain.order.terms)
    return tuple(1 + pick for pick in draw(seed, max(0, segments - 2), OWN_PICKS))


def give_out(
    local: LocalOrder,
    view: View,
    leg: Leg,
    works: Sequence[SlotWork],
    proven: Collection[tuple[int, int]],
) -> list[SlotWork]:
    """Give every slot that nobody serves to somebody, and one whose latest issue failed to somebody else if possible.

    Newcomers have few slots at once: a slot and issue counts until it failed or is ``proven``. Where nobody else
    is there, slots wait for that.
    """
    latest = {work.slot: work for work in works}  # issues of a slot stand in ascending order
    usable = paced(_usable(local, view), local, view.on_chain.order.terms)
    failures, waiting = _failures(local), _waiting(latest.values())
    least = _least_failed(usable, failures)
    room = _room(view, usable, latest.values(), proven)
    given: list[SlotWork] = []

    def give(slot: int, provider: str, issue: int) -> None:
        before = waiting.get(provider, 0)
        waiting[provider] = before + 1
        if provider in room:
            room[provider] -= 1
        given.append(new_work(local, view, leg, slot, provider, before, issue))

    for slot in sorted(latest):
        failed = latest[slot]
        if failed.verdict:
            others = [worker for worker in least if worker.address != failed.provider]
            for provider in plan_slots([slot], others or least, waiting, {}, room).values():
                give(slot, provider, failed.issue + 1)
    unserved = [slot for slot in leg.served_slots if slot not in latest]
    last = {work.slot: work.provider for known in local.rounds for work in known.works}
    plan = plan_slots(unserved, least, waiting, last, room)
    for slot, provider in spread_slots(plan, least, waiting, unshown(least, local), room).items():
        give(slot, provider, 1)
    return given


def _room(
    view: View,
    workers: Iterable[FreeProvider],
    works: Iterable[SlotWork],
    proven: Collection[tuple[int, int]],
) -> dict[str, int]:
    """Return how many slots more each newcomer may have."""
    held: dict[str, int] = {}
    for work in works:
        if not work.verdict and (work.slot, work.issue) not in proven:
            held[work.provider] = held.get(work.provider, 0) + 1
    most = view.on_chain.order.params.newcomer_slots
    return {w.address: max(0, most - held.get(w.address, 0)) for w in workers if w.newcomer}

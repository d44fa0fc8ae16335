"""The speed of providers in practice: the time that their correct shares took, compared with their certified speed.

A certificate comes from a measurement of a few moments, and is valid for days. The shares of an order show how fast the
machine is in practice: while other programs also use it, and while it fetches files and starts processes. So as soon as
an order has results, its slots are planned with the speeds that these results show. A provider whose results do not fit
its certificate is measured again.

A provider gains nothing by a wrong speed. If it trains slowly on purpose, it gets fewer slots. If it is fast only while
it is measured, its own results count from its second round on. Only correct shares count, so an invented share does
not help. A certificate is doubted at most once in ``DOUBT_SECONDS``, so no one can make a validator measure, and pay
for certificates on the chain, without end.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from domain.market.records import JobTerms
from pol.rules.schedule import share_work
from validator.decide.plan import FreeProvider
from validator.decide.records import LocalOrder, SlotWork
from validator.decide.view import Member, View

OVERHEAD_SECONDS = 4
"""Chain seconds of a share that do not depend on the machine's speed: looks, blocks, the start of a process."""
FIT = 3
"""A certificate fits if a share took at most ``FIT`` times the expected time, and at least that time divided by
``FIT``."""
FIT_SECONDS = 20
"""Chain seconds by which the time of a share may differ from the expected time in addition to ``FIT``."""
DOUBT_SECONDS = 1_800
"""Chain seconds after a measurement in which a certificate is not doubted."""


def note_handed_in(work: SlotWork, view: View) -> SlotWork:
    """Record the time at which the commitment to a share was first seen."""
    if work.signed is None or work.handed_at:
        return work
    return replace(work, handed_at=view.clock)


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace that the last correct shares of a provider show: it trained ``shares`` of them at once, in ``seconds``.

    It said that it trains up to ``slots`` at once.
    """

    seconds: int
    shares: int
    slots: int

    @property
    def each(self) -> int:
        """The seconds per share."""
        return self.seconds // self.shares


def paces(local: LocalOrder) -> dict[str, Pace]:
    """Return what the last correct shares of each provider show, keyed by the provider's address.

    A provider trains as many of its shares of a round at once as it says, or all if there are fewer. It begins them
    when it has submitted the share before them.
    """
    done: dict[str, list[tuple[int, SlotWork]]] = {}
    shares = [(known.round, work) for known in local.rounds if known.next_global for work in known.works]
    for round, work in sorted(shares, key=lambda share: share[1].handed_at):
        if work.handed_at and not work.verdict:
            done.setdefault(work.provider, []).append((round, work))
    found = {}
    for provider, known in done.items():
        last_round, last = known[-1]
        of_round = sum(round == last_round for round, _ in known)
        shares_at_once = min(last.at_once, of_round)
        before = known[-shares_at_once - 1][1].handed_at if len(known) > shares_at_once else 0
        began = max(before, min(work.given_at for _, work in known[-shares_at_once:]))
        found[provider] = Pace(max(0, last.handed_at - began), shares_at_once, last.at_once)
    return found


def paced(workers: Iterable[FreeProvider], local: LocalOrder, terms: JobTerms) -> list[FreeProvider]:
    """Return the workers with the speeds (FLOP/s) to plan with.

    A provider with results in this order has the speed that they show, and trains as many shares at once as they show.
    Any other provider has its certified speed, but
    at most the highest speed that the results of other providers show.
    """
    work = share_work(terms)
    known = paces(local)
    shown = {name: max(1, work * pace.shares // (pace.seconds + OVERHEAD_SECONDS)) for name, pace in known.items()}
    best = max(shown.values(), default=0)
    return [
        replace(worker, speed=shown[worker.address], slots=min(worker.slots, known[worker.address].shares))
        if worker.address in shown
        else replace(worker, speed=min(worker.speed, best or worker.speed))
        for worker in workers
    ]


def doubted(local: LocalOrder, terms: JobTerms, members: Mapping[str, Member], clock: int) -> set[str]:
    """Return the addresses of the providers whose last correct share took a time that does not fit their certificate.

    A certificate is not doubted within ``DOUBT_SECONDS`` of its measurement. A share that was assigned before the
    measurement does not count.
    """
    given_at = {
        work.provider: work.given_at
        for known in local.rounds
        for work in known.works
        if work.handed_at and not work.verdict
    }
    return {
        name
        for name, pace in paces(local).items()
        if (member := members.get(name)) is not None
        and member.speed
        and given_at[name] >= member.measured_at
        and clock >= member.measured_at + DOUBT_SECONDS
        and not _fits(share_work(terms) * pace.slots // (member.speed * pace.shares), pace.each)
    }


def _fits(expected: int, span: int) -> bool:
    return span <= FIT * expected + FIT_SECONDS and expected <= FIT * (span + FIT_SECONDS)


def unshown(workers: Iterable[FreeProvider], local: LocalOrder) -> Collection[str]:
    """Return the addresses of the workers that have no result in this order yet."""
    known = paces(local)
    return {worker.address for worker in workers if worker.address not in known}

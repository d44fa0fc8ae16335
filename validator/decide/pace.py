"""How fast providers are in practice: what the shares that held took, beside what was certified.

A certificate says what a machine did in a few moments, and holds for days. The shares of an order say what it does
beside its neighbours, with all that it has to fetch and to start. So slots are planned by the results of the order as
soon as there are some, and a provider whose results do not fit its certificate is measured again.

A provider wins nothing by a wrong figure. One that plays slow is given fewer slots. One that plays fast where it is
measured is planned by its results from its second round on. Only shares that held count, so a share that is made up
quickly does not. And a certificate is in doubt once in ``DOUBT_SECONDS``, so nobody makes a validator measure, and pay
for what it puts on chain, without end.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from domain.market.records import JobTerms
from pol.rules.schedule import share_work
from validator.decide.plan import FreeProvider
from validator.decide.records import LocalOrder, SlotWork
from validator.decide.view import Member, View

OVERHEAD_SECONDS = 4
"""Chain seconds of a share that say nothing of a machine's speed: looks, blocks, a process that starts."""
FIT = 3
"""A certificate fits as long as shares take no more than so many times as long as it says, and no less than a part."""
FIT_SECONDS = 20
"""Chain seconds by which a share may be longer beside that."""
DOUBT_SECONDS = 1_800
"""Chain seconds that a certificate is left alone, whatever shares take."""


def note_handed_in(work: SlotWork, view: View) -> SlotWork:
    """Write down when the commitment to a share was seen first."""
    if work.signed is None or work.handed_at:
        return work
    return replace(work, handed_at=view.clock)


def spans(local: LocalOrder) -> dict[str, int]:
    """Return the chain seconds that the last share of each provider took, of those that held.

    A provider trains one share after the other: the next one begins when the one before was handed in.
    """
    found: dict[str, int] = {}
    ended: dict[str, int] = {}
    works = [work for known in local.rounds if known.next_global for work in known.works]
    for work in sorted(works, key=lambda work: work.handed_at):
        if not work.handed_at or work.verdict:
            continue
        began = max(work.given_at, ended.get(work.provider, 0))
        ended[work.provider] = work.handed_at
        found[work.provider] = max(0, work.handed_at - began)
    return found


def paced(workers: Iterable[FreeProvider], local: LocalOrder, terms: JobTerms) -> list[FreeProvider]:
    """Return the workers with the speeds to plan with.

    A provider with results of this order has the speed that these show. The certificate of any other counts for no more
    than the best of these.
    """
    work = share_work(terms)
    shown = {name: max(1, work // (span + OVERHEAD_SECONDS)) for name, span in spans(local).items()}
    best = max(shown.values(), default=0)
    return [
        replace(worker, speed=shown.get(worker.address, min(worker.speed, best or worker.speed))) for worker in workers
    ]


def doubted(local: LocalOrder, terms: JobTerms, members: Mapping[str, Member], clock: int) -> set[str]:
    """Return the providers whose last share does not fit what they are certified for."""
    given = {
        work.provider: work.given_at
        for known in local.rounds
        for work in known.works
        if work.handed_at and not work.verdict
    }
    return {
        name
        for name, span in spans(local).items()
        if (member := members.get(name)) is not None
        and member.speed
        and given[name] >= member.measured_at
        and clock >= member.measured_at + DOUBT_SECONDS
        and not _fits(share_work(terms) // member.speed, span)
    }


def _fits(expected: int, span: int) -> bool:
    return span <= FIT * expected + FIT_SECONDS and expected <= FIT * (span + FIT_SECONDS)


def unshown(workers: Iterable[FreeProvider], local: LocalOrder) -> Collection[str]:
    """Return the workers whose speed no result of this order has shown."""
    known = spans(local)
    return {worker.address for worker in workers if worker.address not in known}

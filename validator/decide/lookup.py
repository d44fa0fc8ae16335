"""Finding and replacing parts of a record."""

from dataclasses import replace

from domain.records import ShareKey
from validator.decide.records import LocalOrder, LocalRound, SlotWork


def find_round(local: LocalOrder, round: int) -> LocalRound | None:
    """Return the record of a round."""
    return next((current for current in local.rounds if current.round == round), None)


def find_work(current: LocalRound | None, slot: int, issue: int) -> SlotWork | None:
    """Return the work of one issue of a slot."""
    works = current.works if current else ()
    return next((w for w in works if (w.slot, w.issue) == (slot, issue)), None)


def find_share(local: LocalOrder, key: ShareKey) -> SlotWork | None:
    """Return the work of a share of this attempt."""
    return find_work(find_round(local, key.round), key.slot, key.issue)


def accepted_works(current: LocalRound) -> tuple[SlotWork, ...]:
    """Return the latest issue of every slot, in slot order."""
    latest = {work.slot: work for work in current.works}
    return tuple(latest[slot] for slot in sorted(latest))


def replace_round(local: LocalOrder, changed: LocalRound) -> LocalOrder:
    """Return the record with one round replaced."""
    rounds = tuple(changed if r.round == changed.round else r for r in local.rounds)
    return replace(local, rounds=rounds)


def replace_work(local: LocalOrder, round: int, changed: SlotWork) -> LocalOrder:
    """Return the record with one issue of a slot replaced."""
    current = find_round(local, round)
    if current is None:
        return local
    works = tuple(
        changed if (w.slot, w.issue) == (changed.slot, changed.issue) else w for w in current.works
    )
    return replace_round(local, replace(current, works=works))


def exclude(local: LocalOrder, *providers: str) -> LocalOrder:
    """Give no further work in this order to these providers."""
    return replace(local, excluded=tuple(sorted({*local.excluded, *providers})))


def share_key(local: LocalOrder, current: LocalRound, work: SlotWork) -> ShareKey:
    """Return the name of a share on the link."""
    return ShareKey(local.order_id, local.attempt, current.round, work.slot, work.issue)

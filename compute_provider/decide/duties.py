"""A provider's decision. As in the validator's daemon, it is a function of a record and a look that returns the new
record and the actions.

A share goes checking → bonding → fetching → ready → training → trained → submitted → committed → delivered. The
validator gets the commitment first, and the encrypted results. It gets the key only when the commitment is on chain
under this provider's name, and when it has signed a receipt for the ciphertext. Before ``trained``, a share is dropped
when the validator no longer lists it. From ``trained`` on, another party may hold this provider's signature for the
share. So the trace stays on disk until the chain shows that the share is over.

The daemon calls ``decide`` again and again, and each call returns every action whose outcome is missing. The daemon
does not start an action that is under way, waits after a failed action, and does not act on an outdated picture
(:mod:`host.lanes`). A restarted daemon therefore needs only the record.
"""

from collections.abc import Iterator
from dataclasses import replace

from compute_provider.decide import actions as do
from compute_provider.decide.actions import Action
from compute_provider.decide.records import MAY_STAND, Shares, ShareWork, Stage
from compute_provider.decide.view import Look, ValidatorView
from link.types import TrainTask


def decide(shares: Shares, look: Look) -> tuple[Shares, tuple[Action, ...]]:
    """Return the updated record of the shares, and every action whose outcome is missing."""
    dropped = [work for work in shares.works if _is_dropped(work, look.picture)]
    for work in dropped:
        shares = shares.drop(work.key)
    if look.picture is not None:
        for task in look.picture.train:
            if shares.get(task.key) is None:
                shares = shares.put(ShareWork(task, Stage.CHECKING))
    shares = _schedule(shares, look)
    forgotten = tuple(do.ForgetShare(work.key) for work in dropped)
    return shares, (*forgotten, *_standing(shares, look), *_of_shares(shares, look))


def _is_dropped(work: ShareWork, picture: ValidatorView | None) -> bool:
    """Return whether to drop a share from the record."""
    task = picture.task(work.key) if picture else None
    if work.stage is Stage.OVER:
        # As long as the picture lists the share, the share stays in the record: otherwise its task would add it again.
        return task is None
    if work.signed or picture is None:
        return False
    return task is None or not is_same(task, work.task)


def _schedule(shares: Shares, look: Look) -> Shares:
    """Move the ready shares with the earliest deadlines to stage TRAINING, as long as there are slots.

    A machine trains one share at a time, because that uses it best; a cluster has a slot for each process. Segments
    that a panel found wrong are recomputed first.
    """
    free = _free_slots(shares, look) - sum(map(_must_recheck, shares.works))
    ready = [work for work in by_deadline(shares, look.picture) if work.stage is Stage.READY]
    for work in ready[: max(0, free)]:
        shares = shares.put(replace(work, stage=Stage.TRAINING))
    return shares


def _free_slots(shares: Shares, look: Look) -> int:
    return look.slots - sum(work.stage is Stage.TRAINING for work in shares.works)


def by_deadline(shares: Shares, picture: ValidatorView | None) -> list[ShareWork]:
    """Return the work on all shares, sorted by deadline; shares without a deadline come last."""
    to_train = {work.key for work in shares.works if work.stage < Stage.TRAINED}
    tasks = picture.train if picture else ()
    due = sorted((task.seconds_left, task.key) for task in tasks if task.key in to_train)
    places = {key: place for place, (_, key) in enumerate(due)}
    return sorted(shares.works, key=lambda work: places.get(work.key, len(places)))


def _standing(shares: Shares, look: Look) -> Iterator[Action]:
    """Yield the actions that do not depend on any single share."""
    yield do.Poll() if look.joined else do.Join()
    yield do.Watch() if any(work.signed for work in shares.works) else do.Glance()
    yield do.Status()


def _of_shares(shares: Shares, look: Look) -> Iterator[Action]:
    """Yield the actions that the shares need, sorted by the shares' deadlines."""
    picture = look.picture
    for work in by_deadline(shares, picture):
        yield from _to_chain(work)
        if work.stage is Stage.SUBMITTED and not work.uploaded:
            yield do.Upload(work.key)
        task = picture.task(work.key) if picture is not None else None
        listed = task is not None
        if task is not None and task.deadline > work.task.deadline and is_same(task, work.task):
            yield do.Renew(task)
        match work.stage:
            case Stage.CHECKING:
                yield do.CheckTask(work.task)
            case Stage.BONDING:
                yield do.Bond(work.task)
            case Stage.FETCHING:
                yield do.Fetch(work.task)
            case Stage.TRAINING if work.key not in look.training:
                yield do.Train(work.task)
            # If the validator still lists a share after it was sent, the share has not arrived or was lost.
            case Stage.TRAINED | Stage.SUBMITTED if listed:
                yield do.Submit(work.key)
            case Stage.COMMITTED if work.receipt is not None:
                yield do.ShowKey(work.key)
            case Stage.COMMITTED | Stage.DELIVERED if listed:
                yield do.Deliver(work.key)
    may_recompute = _free_slots(shares, look) > 0
    for work in shares.works:
        if work.is_witnessed:
            yield do.SendToWitnesses(work.key)
        yield from _to_panels(work, may_recompute=may_recompute)
    for opening in picture.open if picture else ():
        asked = shares.asked(opening.key)
        if asked is not None and asked.signed:
            yield do.Open(opening.key, opening.indices)


def _to_panels(work: ShareWork, *, may_recompute: bool) -> Iterator[Action]:
    """Yield what a share needs because of a panel: its own, in which its provider stands, or one that found it wrong.

    A segment is recomputed only while there is a slot without a share, because the owner's memory is for one of them.
    """
    if work.stand == MAY_STAND:
        yield do.Stand(work.key)
    elif work.stand > 0:
        yield do.ShowPlaces(work.key, work.stand)
    if _must_recheck(work) and may_recompute:
        yield do.Recheck(work.key)
    elif work.contest is not None and work.contest.is_right:
        yield do.Appeal(work.key)


def _must_recheck(work: ShareWork) -> bool:
    return work.contest is not None and not work.contest.is_checked


def _to_chain(work: ShareWork) -> Iterator[Action]:
    """Yield the messages of a share that have to be sent to the chain, because the validator does not act."""
    if work.to_include:
        yield do.Include(work.key)
    if work.to_ask:
        yield do.Ask(work.key)
    if work.to_show:
        yield do.ShowOnChain(work.key)


def is_same(one: TrainTask, other: TrainTask) -> bool:
    """Return whether two tasks ask for the same training.

    The time left, the list of files, the deadline and the validator's signature may differ.
    """
    return _plain(one) == _plain(other)


def _plain(task: TrainTask) -> TrainTask:
    return replace(task, seconds_left=0, payload=(), deadline=0, signature=b"")

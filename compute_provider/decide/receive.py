"""How outcomes get into the record: each function returns the record with what arrived.

An outcome of a share that is no longer in the record, or that has moved on, changes nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from compute_provider.decide.records import Shares, ShareWork, Stage
from domain.keys import ShareKey

TRIES_MAX = 3

Change = Callable[[Shares], Shares]
"""What an outcome makes of the record as it is by then."""


def checked(shares: Shares, key: ShareKey) -> Shares:
    """Note that the chain agrees with the task."""
    return _move(shares, key, Stage.BONDING, Stage.CHECKING)


def bonded(shares: Shares, key: ShareKey) -> Shares:
    """Note that there is enough free bond for the share."""
    return _move(shares, key, Stage.FETCHING, Stage.BONDING)


def fetched(shares: Shares, key: ShareKey) -> Shares:
    """Note that payload and opening states are here."""
    return _move(shares, key, Stage.READY, Stage.FETCHING)


def progressed(shares: Shares, key: ShareKey, step: int, steps: int, loss: int) -> Shares:
    """Note that the worker has done ``step`` of ``steps``."""
    work = _at(shares, key, Stage.TRAINING)
    return shares.put(replace(work, step=step, steps=steps, loss=loss)) if work else shares


def trained(
    shares: Shares,
    key: ShareKey,
    update_root: bytes = b"",
    local_out_root: bytes = b"",
    text: str = "",
) -> Shares:
    """Note that all boundaries and the update are on disk, or that the job stops where ``text`` says."""
    work = _at(shares, key, Stage.TRAINING)
    if work is None:
        return shares
    return shares.put(
        replace(
            work,
            stage=Stage.TRAINED,
            update_root=update_root,
            local_out_root=local_out_root,
            text=text,
        )
    )


def submitted(shares: Shares, key: ShareKey, accepted: bool, text: str) -> Shares:
    """Note what the validator answered to the commitment."""
    stage = Stage.SUBMITTED if accepted else Stage.REFUSED
    return _move(shares, key, stage, Stage.TRAINED, Stage.SUBMITTED, text=text)


def committed(shares: Shares, key: ShareKey) -> Shares:
    """Note that the chain has the commitment: from here on the work cannot be taken."""
    return _move(shares, key, Stage.COMMITTED, Stage.TRAINED, Stage.SUBMITTED)


def delivered(shares: Shares, key: ShareKey, accepted: bool, text: str) -> Shares:
    """Note what the validator answered to the delivery."""
    stage = Stage.DELIVERED if accepted else Stage.REFUSED
    return _move(shares, key, stage, Stage.COMMITTED, Stage.DELIVERED, text=text)


def failed(shares: Shares, key: ShareKey, text: str, again: bool) -> Shares:
    """Note that something went wrong; ``again``: it may go better the next time."""
    work = shares.get(key)
    if work is None:
        return shares
    if work.signed:
        return shares.put(replace(work, text=text))
    # While the chain does not bear the task out, asking it again costs next to nothing.
    counts = work.stage not in (Stage.CHECKING, Stage.BONDING)
    tries = work.tries + 1 if counts else work.tries
    stage = Stage.CHECKING if again and tries < TRIES_MAX else Stage.FAILED
    return shares.put(replace(work, stage=stage, tries=tries, text=text))


def released(shares: Shares, key: ShareKey) -> Shares:
    """Note that by the chain this share's states cannot be asked for any more."""
    work = shares.get(key)
    if work is None or not work.signed:
        return shares
    return shares.put(replace(work, stage=Stage.OVER))


def _at(shares: Shares, key: ShareKey, *stages: Stage) -> ShareWork | None:
    """Return the work on a share if it is at one of these stages."""
    work = shares.get(key)
    return work if work is not None and work.stage in stages else None


def _move(shares: Shares, key: ShareKey, to: Stage, *stages: Stage, text: str | None = None) -> Shares:
    """Move a share on, if it is at one of these stages."""
    work = _at(shares, key, *stages)
    if work is None:
        return shares
    return shares.put(replace(work, stage=to, text=work.text if text is None else text))

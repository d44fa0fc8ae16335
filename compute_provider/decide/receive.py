"""Functions that apply the outcome of an action to the record of the shares. Each returns the changed record.

An outcome changes nothing if its share is no longer in the record or has moved to a later stage.
"""

from collections.abc import Callable
from dataclasses import replace

from compute_provider.decide.records import MAY_STAND, Contest, Shares, ShareWork, Stage
from domain.keys import ShareKey
from link.types import DeliveryReceipt

TRIES_MAX = 3

Change = Callable[[Shares], Shares]
"""A function that applies an outcome to the record. Its argument is the record at the time when the outcome arrives."""


def checked(shares: Shares, key: ShareKey, hardware: bool = False) -> Shares:
    """Record that the chain agrees with the task, and whether the tier of the leg there has hardware arithmetic."""
    work = _at(shares, key, Stage.CHECKING)
    return shares.put(replace(work, stage=Stage.BONDING, hardware=hardware)) if work else shares


def renewed(shares: Shares, key: ShareKey, deadline: int, signature: bytes) -> Shares:
    """Record a later deadline of a task, with the validator's signature of it."""
    work = shares.get(key)
    if work is None or deadline <= work.task.deadline:
        return shares
    return shares.put(replace(work, task=replace(work.task, deadline=deadline, signature=signature)))


def bonded(shares: Shares, key: ShareKey) -> Shares:
    """Record that there is enough free bond for the share."""
    return _move(shares, key, Stage.FETCHING, Stage.BONDING)


def fetched(shares: Shares, key: ShareKey) -> Shares:
    """Record that the payload and the initial states are on this machine."""
    return _move(shares, key, Stage.READY, Stage.FETCHING)


def progressed(shares: Shares, key: ShareKey, step: int, steps: int, loss: int) -> Shares:
    """Record that the worker has done ``step`` of ``steps`` steps. ``loss`` is the last loss, as FP32 bits."""
    work = _at(shares, key, Stage.TRAINING)
    return shares.put(replace(work, step=step, steps=steps, loss=loss)) if work else shares


def trained(
    shares: Shares,
    key: ShareKey,
    update_root: bytes = b"",
    local_out_root: bytes = b"",
    text: str = "",
    stop_step: int = -1,
) -> Shares:
    """Record that a share is trained: all its boundaries and its update are on disk.

    If the job stopped itself, there is no update, and ``text`` has the place and the reason. ``stop_step`` is the
    number of the step that has no result, or -1.
    """
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
            stop_step=stop_step,
        )
    )


def submitted(shares: Shares, key: ShareKey, accepted: bool, text: str) -> Shares:
    """Record whether the validator accepted the commitment to a share.

    ``text`` is the validator's reason for the verdict.
    """
    stage = Stage.SUBMITTED if accepted else Stage.REFUSED
    return _move(shares, key, stage, Stage.TRAINED, Stage.SUBMITTED, text=text)


def committed(shares: Shares, key: ShareKey) -> Shares:
    """Record that the commitment is on the chain: from now on, no other provider can claim the work."""
    return _move(shares, key, Stage.COMMITTED, Stage.TRAINED, Stage.SUBMITTED)


def delivered(shares: Shares, key: ShareKey, accepted: bool, text: str) -> Shares:
    """Record whether the validator accepted the results of a share.

    ``text`` is the validator's reason for the verdict.
    """
    stage = Stage.DELIVERED if accepted else Stage.REFUSED
    return _move(shares, key, stage, Stage.COMMITTED, Stage.DELIVERED, text=text)


def uploaded(shares: Shares, key: ShareKey) -> Shares:
    """Record that the validator has the ciphertext of a share."""
    work = _at(shares, key, Stage.SUBMITTED, Stage.COMMITTED)
    return shares.put(replace(work, uploaded=True)) if work else shares


def receipted(shares: Shares, key: ShareKey, receipt: DeliveryReceipt) -> Shares:
    """Record a receipt of the validator. One for the key is never replaced by one for the ciphertext alone."""
    work = shares.get(key)
    if work is None or (work.receipt is not None and work.receipt.was_shown and not receipt.was_shown):
        return shares
    return shares.put(replace(work, receipt=receipt))


def to_show(shares: Shares, key: ShareKey, wanted: bool) -> Shares:
    """Record whether the key of a delivery has to be shown to the chain."""
    work = shares.get(key)
    return shares.put(replace(work, to_show=wanted)) if work and work.to_show != wanted else shares


def to_include(shares: Shares, key: ShareKey, wanted: bool) -> Shares:
    """Record whether the provider has to put its commitment on chain itself."""
    work = shares.get(key)
    return shares.put(replace(work, to_include=wanted)) if work and work.to_include != wanted else shares


def contested(shares: Shares, key: ShareKey, contest: Contest | None) -> Shares:
    """Record the ruling against a share that can be appealed now, or that there is none.

    What is known of this ruling is kept.
    """
    work = shares.get(key)
    if work is None or work.contest == contest:
        return shares
    known = work.contest
    if known is not None and contest is not None and replace(known, is_checked=False, is_right=False) == contest:
        return shares
    return shares.put(replace(work, contest=contest))


def rechecked(shares: Shares, key: ShareKey, is_right: bool) -> Shares:
    """Record whether recomputing gives the results of a share again, so that its provider appeals the ruling."""
    work = shares.get(key)
    if work is None or work.contest is None:
        return shares
    return shares.put(replace(work, contest=replace(work.contest, is_checked=True, is_right=is_right)))


def to_ask(shares: Shares, key: ShareKey, wanted: bool) -> Shares:
    """Record whether the provider has to ask for witnesses of a delivery."""
    work = shares.get(key)
    return shares.put(replace(work, to_ask=wanted)) if work and work.to_ask != wanted else shares


def is_witnessed(shares: Shares, key: ShareKey, waiting: bool) -> Shares:
    """Record whether witnesses wait for a delivery."""
    work = shares.get(key)
    return shares.put(replace(work, is_witnessed=waiting)) if work and work.is_witnessed != waiting else shares


def failed(shares: Shares, key: ShareKey, text: str, again: bool) -> Shares:
    """Record that an action for a share failed with the reason ``text``.

    ``again`` is True if another try may succeed.
    """
    work = shares.get(key)
    if work is None:
        return shares
    if work.signed:
        return shares.put(replace(work, text=text))
    # Failures in these two stages do not count, because checking the task or the bond again costs almost nothing.
    counts = work.stage not in (Stage.CHECKING, Stage.BONDING)
    tries = work.tries + 1 if counts else work.tries
    stage = Stage.CHECKING if again and tries < TRIES_MAX else Stage.FAILED
    return shares.put(replace(work, stage=stage, tries=tries, text=text))


def released(shares: Shares, key: ShareKey) -> Shares:
    """Record that, according to the chain, no one can ask for this share's states any longer."""
    work = shares.get(key)
    if work is None or not work.signed:
        return shares
    return shares.put(replace(work, stage=Stage.OVER))


def _at(shares: Shares, key: ShareKey, *stages: Stage) -> ShareWork | None:
    """Return the record of the work on a share, if that work is at one of the given stages; otherwise None."""
    work = shares.get(key)
    return work if work is not None and work.stage in stages else None


def _move(shares: Shares, key: ShareKey, to: Stage, *stages: Stage, text: str | None = None) -> Shares:
    """Move a share to the stage ``to``, if it is at one of ``stages``.

    If ``text`` is not None, it replaces the share's text.
    """
    work = _at(shares, key, *stages)
    if work is None:
        return shares
    return shares.put(replace(work, stage=to, text=work.text if text is None else text))


def standing(shares: Shares, key: ShareKey, stand: int) -> Shares:
    """Record that the provider has to stand for a share, that it stands in a dispute, or that the chain refused it.

    It begins no stand for a share that is over: the states that the seats need may be deleted at any time.
    """
    work = shares.get(key)
    if work is None or work.stand == stand:
        return shares
    if stand == MAY_STAND and (work.stand != 0 or work.stage is Stage.OVER):
        return shares
    return shares.put(replace(work, stand=stand))

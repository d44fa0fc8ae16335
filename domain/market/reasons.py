"""Reason codes of the market component."""

from enum import IntEnum


class CloseReason(IntEnum):
    """A reason why an order closed.

    Example::

        if order.why().closed is assay.CloseReason.UNSERVED:
            print(order.why())
    """

    CANCELLED = 1  # the consumer cancelled it before a match
    STOPPED_BY_JOB = 2  # the job stopped; its work up to the stop is paid
    SETTLED = 20_000  # all rounds verified and paid
    EXPIRED = 20_001  # no bid matched within its time to live
    DEADLINE = 20_002  # its deadline passed before a match
    UNSERVED = 10_000  # `max_attempts` legs failed
    FAILED = 10_001  # the leg failed, and the order could not be matched again
    UNVERIFIED = 20_003  # as FAILED, because no panel could decide whether a round is right

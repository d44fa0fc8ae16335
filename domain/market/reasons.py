"""Reason codes of the market component."""

from enum import IntEnum


class CloseReason(IntEnum):
    """A reason why an order closed.

    Example::

        if order.why().closed is assay.CloseReason.UNSERVED:
            print(order.why())
    """

    CANCELLED = 1  # the consumer cancelled the order before a match
    STOPPED_BY_JOB = 2  # the job stopped; its work up to the stop was paid
    SETTLED = 20_000  # all rounds were verified and paid
    EXPIRED = 20_001  # no bid matched the order within its time to live
    DEADLINE = 20_002  # the order's deadline passed before a match
    UNSERVED = 10_000  # `max_attempts` legs failed
    FAILED = 10_001  # a leg failed, and the order could not be matched again
    UNVERIFIED = 20_003  # like FAILED, but the leg failed because no panel could decide whether a round is right

"""Reason codes of the market component."""

from enum import IntEnum


class CloseReason(IntEnum):
    """Why an order closed.

    Example::

        if order.why().closed is assay.CloseReason.UNSERVED:
            print(order.why())
    """

    CANCELLED = 1  # the consumer took it back before a match
    STOPPED_BY_JOB = 2  # the job has no result from some place on; what was done before is paid
    SETTLED = 20_000  # all rounds verified and paid
    EXPIRED = 20_001  # nobody matched within its time to live
    DEADLINE = 20_002  # its deadline passed before a match
    UNSERVED = 10_000  # as many legs as `max_attempts` failed
    FAILED = 10_001  # the leg failed and re-matching was impossible
    UNVERIFIED = 20_003  # the same, for nobody could tell whether a round is right

"""Reason codes of the legs component."""

from enum import IntEnum


class LegEnd(IntEnum):
    """Why a leg ended without serving the order to its end.

    Example::

        print([assay.LegEnd(end).name for end in order.why().legs.values()])
    """

    PAYLOAD_NOT_DELIVERED = 1  # the consumer did not deliver in time
    DECLINED_BAD_JOB = 2  # the job does not load
    DECLINED_WORK_MISMATCH = 3  # the job's work differs from the order's
    DECLINED_TOO_SLOW = 4  # a trial takes longer than its work at the bid's speed
    DECLINED_NOT_FINITE = 5  # a trial ends in what is no number
    STOPPED_BY_JOB = 6  # all that there is of the job was done, and is paid
    DECLINED_NO_CAPACITY = 10_010  # the validator has no room for it, which closes its bid
    NOT_ACCEPTED = 10_011  # accept deadline missed
    NO_PROGRESS = 10_012  # progress deadline missed
    STOPPED_BY_VALIDATOR = 10_013  # the validator gave it up
    WRONG_ROUND = 10_014  # a place that the validator answers for was decided against the chain
    WRONG_SHARE = 10_015  # a place that only its provider answers for was
    DECLINED_BY_CHOICE = 10_020  # the validator does not want it, and blames nobody
    ORDER_DEADLINE = 20_010  # the order's deadline passed before its end
    UNDECIDED = 20_011  # a panel could not decide a place: nobody's fault

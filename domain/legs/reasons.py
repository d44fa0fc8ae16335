"""Reason codes of the legs component."""

from enum import IntEnum


class LegEnd(IntEnum):
    """The reason why a leg ended before it had served all its rounds.

    Example::

        print([assay.LegEnd(end).name for end in order.why().legs.values()])
    """

    PAYLOAD_NOT_DELIVERED = 1  # the consumer did not deliver in time
    DECLINED_BAD_JOB = 2  # the job cannot be loaded
    DECLINED_WORK_MISMATCH = 3  # the work of the delivered job differs from the work in the order
    DECLINED_TOO_SLOW = 4  # a trial run is slower than the bid's speed allows
    DECLINED_NOT_FINITE = 5  # a trial run gives a value that is not finite
    STOPPED_BY_JOB = 6  # the job stopped; its work up to the stop is done and is paid
    DECLINED_NO_CAPACITY = 10_010  # the validator has no free capacity; its bid closes
    NOT_ACCEPTED = 10_011  # the validator missed the accept deadline
    NO_PROGRESS = 10_012  # the validator missed the progress deadline
    STOPPED_BY_VALIDATOR = 10_013  # the validator gave up the leg
    WRONG_ROUND = 10_014  # a panel ruled against a place, and the validator is responsible for it
    WRONG_SHARE = 10_015  # a panel ruled against a place, and only the provider is responsible for it
    WRONG_HANDOVER = 10_016  # the validator handed over wrong states, or, by the last stage of a panel, none
    STATE_UNAVAILABLE = 10_017  # the validator could not fetch the states from which the leg starts
    DECLINED_BY_CHOICE = 10_020  # the validator does not want the order
    ORDER_DEADLINE = 20_010  # the order's deadline passed before the leg was done
    UNDECIDED = 20_011  # a panel could not decide a place; no one is at fault


LEFT_BY_VALIDATOR = frozenset(
    {
        LegEnd.NO_PROGRESS,
        LegEnd.STOPPED_BY_VALIDATOR,
        LegEnd.WRONG_ROUND,
        LegEnd.WRONG_HANDOVER,
        LegEnd.ORDER_DEADLINE,
    }
)
"""Ends of a running leg that cost its validator the job bond or a part of it. The validator also pays for the right
shares of the round that was open.
"""


class PartEnd(IntEnum):
    """The reason why the part that was withheld from the validator of a failed leg no longer waits.

    Example::

        print([assay.PartEnd(end).name for end in (1, 2, 3)])
    """

    TIME = 1  # paid: the time for the consumer to fetch the states is over
    ACKNOWLEDGED = 2  # paid: the consumer confirmed that it has the states
    DENIED = 3  # burnt: the consumer denied that the states were served
    UNAVAILABLE = 4  # returned to the deposit: enough validators could not fetch the states
    COMPLAINT = 5  # returned to the deposit: the consumer proved that the leg handed over wrong states

"""Reason codes of every ending: 1-9,999 consumer, 10,000-19,999 validator or provider, 20,000-29,999 network."""

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
    UNSERVED = 10_000  # as many attempts as `max_attempts` failed
    FAILED = 10_001  # the attempt failed and re-matching was impossible
    UNVERIFIED = 20_003  # the same, for nobody could tell whether a round is right


class AttemptEnd(IntEnum):
    """Why an assignment ended without serving the order to its end.

    Example::

        print([assay.AttemptEnd(end).name for end in order.why().attempts.values()])
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


class ShareReason(IntEnum):
    """Why a share was skipped or rejected.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareRejected):
                print(assay.ShareReason(event.reason).name)
    """

    NONE = 0  # nothing was wrong
    # the validator's verdicts
    NO_ANSWER = 10_100  # never returned a share, or never delivered or opened what it committed to
    LATE = 10_101  # it came after the time that it was given
    SEGMENT_MISMATCH = 10_105  # replay gives another boundary root (wrong trace)
    UPDATE_MISMATCH = 10_106  # not the function of boundaries 0 and n (wrong update)
    NOT_FINITE = 10_107  # it goes on where training has no result
    NOT_STOPPED = 10_109  # it ends where training goes on
    # what a validator tells a provider and its operator; on chain it is NO_ANSWER
    MALFORMED = 10_102  # garbage: cannot be parsed, or over a limit
    TRACE_NOT_BOUND = 10_103  # what was delivered is not what was committed to
    OPENING_MISMATCH = 10_104  # an opened state does not hash to its leaf
    # the chain's own checks in CommitTraces
    BAD_SIGNATURE = 10_110  # the provider did not sign that
    NOT_IN_CLUSTER = 10_111  # the provider is not in the validator's cluster
    BAD_SLOT = 10_112  # a slot that the order has not
    SLOT_TAKEN = 10_113  # by a share that nobody rejected
    NO_BOND = 10_116  # the provider's free bond does not cover the share
    WRONG_ISSUE = 10_117  # an issue of the slot that is not newer than the last
    ATTEMPT_ENDED = 10_118  # its round will never be closed: no verdict, and the bond returned


MISMATCHES = frozenset(
    {
        ShareReason.SEGMENT_MISMATCH,
        ShareReason.UPDATE_MISMATCH,
        ShareReason.NOT_FINITE,
        ShareReason.NOT_STOPPED,
    }
)
"""Reasons that an honest validator never gives wrongly: what a provider committed to is not what training gives."""
SILENCES = frozenset({ShareReason.NO_ANSWER, ShareReason.LATE})
"""Reasons that nobody can check: who was silent, provider or validator?"""

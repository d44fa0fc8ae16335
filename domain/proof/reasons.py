"""Reason codes of the proof component."""

from enum import IntEnum


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
    LEG_ENDED = 10_118  # its round will never be closed: no verdict, and the bond returned


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

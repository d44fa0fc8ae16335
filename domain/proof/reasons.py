"""Reason codes of the proof component."""

from enum import IntEnum


class ShareReason(IntEnum):
    """The reason why a share was skipped or rejected.

    Example::

        for event in order.events():
            if isinstance(event, assay.ShareRejected):
                print(assay.ShareReason(event.reason).name)
    """

    NONE = 0  # nothing was wrong
    # Verdicts of the validator.
    NO_ANSWER = 10_100  # the provider returned no share, did not deliver it, or did not open its commitment
    LATE = 10_101  # the share came after its deadline
    SEGMENT_MISMATCH = 10_105  # a replay gives another boundary root (wrong trace)
    UPDATE_MISMATCH = 10_106  # the update does not follow from boundaries 0 and n (wrong update)
    NOT_FINITE = 10_107  # the share continues although the job stops earlier
    NOT_STOPPED = 10_109  # the share ends although the job continues
    # A validator reports the following reasons to a provider and its operator. On chain, it gives NO_ANSWER instead.
    MALFORMED = 10_102  # the share cannot be parsed, or exceeds a limit
    TRACE_NOT_BOUND = 10_103  # the delivered share does not match the commitment
    OPENING_MISMATCH = 10_104  # an opened state does not hash to its leaf
    # The following reasons come from the chain's checks in CommitTraces.
    BAD_SIGNATURE = 10_110  # the provider's signature is not valid
    NOT_IN_CLUSTER = 10_111  # the provider is not in the validator's cluster
    BAD_SLOT = 10_112  # the order has no such slot
    SLOT_TAKEN = 10_113  # the slot has a share that is not rejected
    NO_BOND = 10_116  # the provider's free bond does not cover the share
    WRONG_ISSUE = 10_117  # the issue is not higher than the slot's last issue
    LEG_ENDED = 10_118  # the share's round will never be closed: the share gets no verdict, and its bond is returned
    INCLUDED = 10_119  # the provider put the commitment on chain itself, so the share keeps no slot
    OTHER_COMMITMENT = 10_120  # the provider itself put another commitment for this issue on chain


MISMATCHES = frozenset(
    {
        ShareReason.SEGMENT_MISMATCH,
        ShareReason.UPDATE_MISMATCH,
        ShareReason.NOT_FINITE,
        ShareReason.NOT_STOPPED,
    }
)
"""Reasons that an honest validator never gives by mistake: the committed share differs from the result of training."""

SILENCES = frozenset({ShareReason.NO_ANSWER, ShareReason.LATE})
"""Reasons that no one else can check: either the provider or the validator may have been silent."""

UNANSWERED = SILENCES | {ShareReason.INCLUDED}
"""Reasons of shares that count as rejected as a mismatch if they are received, and as unanswered otherwise."""


class Comparison(IntEnum):
    """The outcome of the comparison of a round with those of the other replicas of its order.

    Example::

        print([assay.Comparison(outcome).name for outcome in (1, 2, 3)])
    """

    CONFIRMED = 1  # all replicas that can be compared have equal roots; a lot decides about a panel
    ALONE = 2  # no other replica can be compared with it, so a panel audits the round
    DIFFERENT = 3  # another replica has other roots, so a panel audits the place where they depart

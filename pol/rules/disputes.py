"""Rules of disputes: the commitment of a challenge, and the bond that a place needs (protocol, "Disputes")."""

from collections.abc import Collection, Iterable

from domain.hashing import hash_fields, u32, u64
from domain.keys import RoundKey
from domain.market.records import ChallengeTerms
from domain.proof.records import AuditPlace, Finding

STAGES_PAID = 3
"""Number of seats that the bond of a challenge pays for, as a multiple of the seats of a first stage. A first stage and
a second one, which has twice as many seats, make three times.
"""


LIVE_AT_PRICE = 4
"""Number of live challenges of a round after which the least bond doubles."""


def may_challenge(terms: ChallengeTerms, parties: Collection[str], address: str, *, is_operator: bool) -> bool:
    """Return whether an account may challenge rounds of an order.

    ``parties`` are the order's consumer and its depositors. The operators of validators may challenge every order.
    """
    return is_operator or terms.anyone or address in parties or address in terms.addresses


def challenge_commitment(
    chain_id: str, key: RoundKey, place: AuditPlace, claim: Finding, salt: bytes, challenger: str
) -> bytes:
    """Return the hash with which a challenger commits to a place and a claim.

    The hash covers the challenger's address, so no one else can use a copy of it.
    """
    return hash_fields(
        "assay/challenge",
        chain_id,
        key.order_id,
        u32(key.leg),
        u32(key.round),
        u32(int(place.kind)),
        u32(place.slot),
        u32(place.issue),
        u32(place.segment),
        u32(place.chunk),
        u32(int(claim.kind)),
        claim.root,
        u64(claim.step),
        salt,
        challenger,
    )


def least_bond(challenge_min: int, live: int) -> int:
    """Return the least bond (uassay) of a challenge of a round that already has ``live`` challenges that have not
    ended.

    The bond doubles with every ``LIVE_AT_PRICE`` of these. So it is expensive for one party to use up all challenges
    that a round may have.
    """
    return challenge_min << (live // LIVE_AT_PRICE)


def appeal_seconds(window: int, appeal_wait: int) -> int:
    """Return the seconds in which a ruling against the chain can be appealed, if it was not of the last stage."""
    return max(window // 2, appeal_wait)


def appeal_bond(costs: Iterable[int], answer_fee: int, seats: int, challenge_min: int) -> int:
    """Return the bond (uassay) of an appeal.

    It pays ``seats`` seats, one for each validator that was listed to audit the order. ``costs`` are the pay of a seat
    for each place that is decided again.
    """
    return max(challenge_min, seats * (sum(costs) + answer_fee))


def needed_bond(cost: int, answer_fee: int, seats: int, open_before: int, least: int) -> int:
    """Return the bond (uassay) that a challenge needs.

    The bond pays ``seats`` seats, each with ``cost`` and ``answer_fee``, and is at least ``least``. This amount doubles
    for each challenge of the round that was open before this one; ``open_before`` is their number. So each further
    challenge that delays the same round costs twice as much.
    """
    return max(least, seats * (cost + answer_fee)) << open_before

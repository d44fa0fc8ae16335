"""Rules of disputes: the commitment of a challenge, and the bond that a place needs (protocol, "Disputes")."""

from collections.abc import Collection

from domain.hashing import hash_fields, u32, u64
from domain.keys import RoundKey
from domain.market.records import ChallengeTerms
from domain.proof.records import AuditPlace, Finding

STAGES_PAID = 3
"""The bond of a challenge pays for so many times the seats of a first stage: those of the first stage, and those of a
second one, which has twice as many."""


LIVE_AT_PRICE = 4
"""Number of live challenges of a round that each cost the same."""


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
    """Return the least bond (uassay) of a challenge of a round with ``live`` challenges that have not ended.

    It doubles with every ``LIVE_AT_PRICE`` of them. So it is dear to take all the challenges that a round can have.
    """
    return challenge_min << (live // LIVE_AT_PRICE)


def needed_bond(cost: int, answer_fee: int, seats: int, open_before: int, least: int) -> int:
    """Return the bond (uassay) that a challenge needs.

    It pays ``seats`` seats at ``cost`` and ``answer_fee`` each, and is doubled for each challenge of the round that is
    ``open_before`` it. So each further challenge that delays the same round costs twice as much. The bond is at least
    ``least``.
    """
    return max(least, seats * (cost + answer_fee)) << open_before

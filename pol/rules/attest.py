"""Panels about evidence of devices: commitments of seats, the verdict, and what each seat earns or loses.

Answers are compared by their side: the evidence gives a credential, or it does not. Reasons of honest seats may differ,
because versions of a parser report other faults of the same evidence (``docs/decisions/attested.md``).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from domain.attest.records import AttestAnswer, AttestVerdict
from domain.hashing import hash_fields, u32, u64

SILENCE = 1
"""Loss of a silent seat, as a multiple of the fee of a seat."""
PENALTY = 3
"""Loss of a seat on the other side of the verdict, as a multiple of the fee of a seat."""


class SeatVerdict(Enum):
    """The consequence of a verdict for a seat."""

    RIGHT = "right"  # it is paid
    REFUTED = "refuted"  # it loses PENALTY times the fee
    SILENT = "silent"  # it loses SILENCE times the fee
    NEITHER = "neither"  # it is neither paid nor cut


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict of a panel, its reason, and the verdict on each seat.

    The reason is the most frequent answer on the side of the verdict; None if the panel is undecided.
    """

    verdict: AttestVerdict
    reason: AttestAnswer | None
    seats: tuple[SeatVerdict, ...]


def answer_commitment(
    chain_id: str, owner: str, number: int, validator: str, salt: bytes, answer: AttestAnswer
) -> bytes:
    """Return the hash (32 bytes) with which a seat commits to its answer about the evidence of ``owner``.

    It covers the validator's address, so another seat cannot use a copy of it.
    """
    return hash_fields("assay/attest/commitment", chain_id, owner, u64(number), validator, salt, u32(int(answer)))


def decide(answers: Sequence[AttestAnswer | None]) -> Decision:
    """Return the decision of a panel; ``answers`` has None for a seat that revealed nothing.

    A side wins with more than two thirds of the answers, if more than half of the seats gave one. Abstentions are not
    answers, and an abstention is not silence. Of an undecided panel, seats are paid if at least two answered and all
    answers are on one side. No one is cut then: the cause may be an outage.
    """
    given = [answer for answer in answers if _is_given(answer)]
    verdict = AttestVerdict.UNDECIDED
    accepting = sum(answer is AttestAnswer.OK for answer in given)
    refusing = len(given) - accepting
    if 2 * len(given) > len(answers):
        if 3 * accepting > 2 * len(given):
            verdict = AttestVerdict.ACCEPTED
        elif 3 * refusing > 2 * len(given):
            verdict = AttestVerdict.REFUSED
    if verdict is AttestVerdict.UNDECIDED:
        agreed = len(given) > 1 and not (accepting and refusing)
        paid = SeatVerdict.RIGHT if agreed else SeatVerdict.NEITHER
        return Decision(verdict, None, tuple(paid if _is_given(each) else SeatVerdict.NEITHER for each in answers))
    accepts = verdict is AttestVerdict.ACCEPTED
    reasons = Counter(answer for answer in given if (answer is AttestAnswer.OK) == accepts and answer is not None)
    reason = min(reasons, key=lambda answer: (-reasons[answer], answer))
    return Decision(verdict, reason, tuple(_judge(answer, accepts) for answer in answers))


def _is_given(answer: AttestAnswer | None) -> bool:
    return answer is not None and answer is not AttestAnswer.ABSTAINED


def _judge(answer: AttestAnswer | None, accepts: bool) -> SeatVerdict:
    if answer is None:
        return SeatVerdict.SILENT
    if answer is AttestAnswer.ABSTAINED:
        return SeatVerdict.NEITHER
    return SeatVerdict.RIGHT if (answer is AttestAnswer.OK) == accepts else SeatVerdict.REFUTED


def seat_loss(verdict: SeatVerdict, fee: int) -> int:
    """Return the loss of a seat (uassay); ``fee`` (uassay) is the fee of a seat."""
    times = {SeatVerdict.SILENT: SILENCE, SeatVerdict.REFUTED: PENALTY}
    return times.get(verdict, 0) * fee

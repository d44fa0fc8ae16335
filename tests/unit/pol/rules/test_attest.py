"""Verdicts of panels about evidence, compared with the rule written again in words of the decision."""

from itertools import product

import pytest

from domain.attest.records import AttestAnswer, AttestVerdict
from pol.rules.attest import PENALTY, SILENCE, SeatVerdict, answer_commitment, decide, seat_loss

OK, BAD, AWAY = AttestAnswer.OK, AttestAnswer.BAD_SIGNATURE, AttestAnswer.ABSTAINED
CHOICES: tuple[AttestAnswer | None, ...] = (OK, BAD, AWAY, None)


def again(answers: tuple[AttestAnswer | None, ...]) -> tuple[AttestVerdict, str]:
    """Return the verdict and a letter for each seat: Paid, Cut thrice, Silent, or nothing."""
    yes, no = answers.count(OK), answers.count(BAD)
    verdict = AttestVerdict.UNDECIDED
    if yes + no > len(answers) / 2:
        if yes > 2 * no:
            verdict = AttestVerdict.ACCEPTED
        elif no > 2 * yes:
            verdict = AttestVerdict.REFUSED
    letters = {OK: "-", BAD: "-", AWAY: "-", None: "-"}
    if verdict is not AttestVerdict.UNDECIDED:
        accepted = verdict is AttestVerdict.ACCEPTED
        letters = {OK: "P" if accepted else "C", BAD: "C" if accepted else "P", AWAY: "-", None: "S"}
    elif min(yes, no) == 0 and yes + no >= 2:
        letters = {OK: "P", BAD: "P", AWAY: "-", None: "-"}
    return verdict, "".join(letters[answer] for answer in answers)


LETTERS = {SeatVerdict.RIGHT: "P", SeatVerdict.REFUTED: "C", SeatVerdict.SILENT: "S", SeatVerdict.NEITHER: "-"}


@pytest.mark.parametrize("seats", range(6))
def test_every_panel_of_up_to_five_seats_is_decided_by_the_rule(seats: int) -> None:
    for answers in product(CHOICES, repeat=seats):
        decision = decide(answers)
        found = decision.verdict, "".join(LETTERS[each] for each in decision.seats)
        assert found == again(answers), answers
        assert (decision.reason is None) == (decision.verdict is AttestVerdict.UNDECIDED)


def test_the_most_frequent_reason_is_named_and_of_equals_the_first() -> None:
    reasons = (AttestAnswer.REVOKED, AttestAnswer.EXPIRED, AttestAnswer.REVOKED)
    assert decide(reasons).reason is AttestAnswer.REVOKED
    assert decide((AttestAnswer.REVOKED, AttestAnswer.EXPIRED)).reason is AttestAnswer.EXPIRED
    assert decide((*reasons, *[OK] * 7)).reason is OK


def test_losses_are_multiples_of_the_fee() -> None:
    losses = [seat_loss(verdict, 10) for verdict in SeatVerdict]
    assert losses == [0, 10 * PENALTY, 10 * SILENCE, 0]


def test_a_commitment_covers_everything() -> None:
    base = ("chain", "owner", 1, "validator", bytes(32), OK)
    made = {
        answer_commitment(*base),
        answer_commitment("other", "owner", 1, "validator", bytes(32), OK),
        answer_commitment("chain", "other", 1, "validator", bytes(32), OK),
        answer_commitment("chain", "owner", 2, "validator", bytes(32), OK),
        answer_commitment("chain", "owner", 1, "other", bytes(32), OK),
        answer_commitment("chain", "owner", 1, "validator", bytes([1]) * 32, OK),
        answer_commitment("chain", "owner", 1, "validator", bytes(32), BAD),
    }
    assert len(made) == 7

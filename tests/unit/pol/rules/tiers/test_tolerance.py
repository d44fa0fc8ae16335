"""The rules of the tier ``tolerance``: commitments to own states, remarks of later seats, and places that lie apart."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.keys import RoundKey
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Finding, Ruling, SeatAnswer
from pol.rules.panels import ShareExtent, draw_places
from pol.rules.tiers.remarks import SEATS_MAX, Standing, is_outside, is_remarked, review, write_remarks
from pol.rules.tiers.tier import AnswerVerdict, Quorum, Vote
from pol.rules.tiers.tolerance import TOLERANCE

CLAIM, OTHER = bytes([7]) * 32, bytes([8]) * 32
KEY = RoundKey(bytes(32), 1, 0).panel(0)
RIGHT = Finding(AnswerKind.WITHIN, CLAIM, 0)
NOTHING = write_remarks((), ())
QUORUM = Quorum(auditors=2, eligible=9, stake=9, is_last=False, claim=CLAIM, stop=None)


def within(stage: int, own: int, *earlier: bytes) -> Vote:
    """A seat with a state of its own that finds the claim within the thresholds."""
    answer = SeatAnswer(0, AnswerKind.WITHIN, CLAIM, bytes([own]) * 32, 0, earlier)
    return Vote(stage, 1, answer)


def outside(stage: int, own: int, *earlier: bytes) -> Vote:
    return Vote(stage, 1, SeatAnswer(0, AnswerKind.OUTSIDE, b"", bytes([own]) * 32, 0, earlier))


UNSERVED = Vote(1, 1, SeatAnswer(0, AnswerKind.UNAVAILABLE, b"", bytes([9]) * 32, 0))


def judge(*votes: Vote, finding: Finding | None = RIGHT) -> list[AnswerVerdict]:
    return list(TOLERANCE.judge(votes, finding, False))


def test_seats_with_different_states_agree_that_a_claim_is_within() -> None:
    votes = within(1, 1), within(1, 2)
    assert TOLERANCE.decide(votes, QUORUM) == RIGHT
    assert TOLERANCE.rule(RIGHT, CLAIM, None) is Ruling.RIGHT
    assert judge(*votes) == [AnswerVerdict.RIGHT] * 2


def test_a_claim_that_another_trace_has_is_not_the_one_on_chain() -> None:
    assert TOLERANCE.rule(Finding(AnswerKind.WITHIN, OTHER, 0), CLAIM, None) is Ruling.WRONG
    assert TOLERANCE.rule(RIGHT, b"", None) is Ruling.WRONG
    assert TOLERANCE.rule(Finding(AnswerKind.OUTSIDE, b"", 0), CLAIM, None) is Ruling.WRONG


def test_a_stop_is_right_at_the_step_that_the_chain_has() -> None:
    stop = Finding(AnswerKind.WITHIN, b"", 5)
    assert TOLERANCE.rule(stop, b"", 5) is Ruling.RIGHT
    assert TOLERANCE.rule(stop, b"", 4) is Ruling.WRONG
    assert TOLERANCE.rule(RIGHT, CLAIM, 5) is Ruling.WRONG


def test_one_stage_alone_does_not_find_a_claim_outside_and_two_do() -> None:
    first = outside(1, 1), outside(1, 2)
    assert TOLERANCE.decide(first, QUORUM) is None
    assert TOLERANCE.count_wanted(first, QUORUM) == 4
    both = *first, *(outside(2, own, NOTHING) for own in range(3, 7))
    found = TOLERANCE.decide(both, QUORUM)
    assert found == Finding(AnswerKind.OUTSIDE, b"", 0)
    assert judge(*both, finding=found) == [AnswerVerdict.RIGHT] * 6
    assert judge(*both, within(2, 8, NOTHING), finding=found)[-1] is AnswerVerdict.REFUTED


def test_the_commitment_covers_the_own_state_and_not_the_comparison() -> None:
    def commitment(answer: SeatAnswer) -> bytes:
        return TOLERANCE.commitment("chain", KEY, 1, "seat", b"salt", (answer,))

    own = within(1, 1).answer
    assert own is not None
    later = replace(own, earlier=(NOTHING,))
    changed = outside(1, 1).answer, replace(own, kind=AnswerKind.UNAVAILABLE, root=b""), later
    assert {commitment(answer) for answer in changed if answer is not None} == {commitment(own)}
    assert commitment(replace(own, digest=OTHER)) != commitment(own)
    assert commitment(replace(own, place=1)) != commitment(own)
    exact = SeatAnswer(0, AnswerKind.FINISHED, CLAIM, bytes([1]) * 32, 0)
    assert commitment(replace(exact, root=OTHER)) != commitment(exact)
    unserved = SeatAnswer(0, AnswerKind.UNAVAILABLE, CLAIM, b"", 0)
    assert commitment(replace(unserved, root=OTHER)) != commitment(unserved)


@pytest.mark.parametrize("place", AuditKind)
@pytest.mark.parametrize("kind", AnswerKind)
def test_only_segments_are_compared(place: AuditKind, kind: AnswerKind) -> None:
    compared = kind in (AnswerKind.WITHIN, AnswerKind.OUTSIDE)
    fits = kind is AnswerKind.UNAVAILABLE or compared is (place is AuditKind.SEGMENT)
    assert TOLERANCE.may_answer(place, kind) is fits


# --- reviews -------------------------------------------------------------------------------------


def test_a_seat_without_a_remark_is_good() -> None:
    votes = within(1, 1), within(1, 2), within(2, 3, NOTHING)
    assert {each.standing for each in review(votes)} == {Standing.GOOD}
    assert judge(*votes) == [AnswerVerdict.RIGHT] * 3


def test_one_reviewer_alone_costs_no_seat_its_pay() -> None:
    votes = within(1, 1), within(1, 2), within(2, 3, write_remarks((0,), ()))
    assert TOLERANCE.decide(votes, QUORUM) is None
    assert TOLERANCE.count_wanted(votes, QUORUM) == 6
    assert judge(*votes) == [AnswerVerdict.UNKNOWN, AnswerVerdict.RIGHT, AnswerVerdict.RIGHT]


def test_a_state_that_one_reviewer_did_not_get_is_asked_for_by_two_more() -> None:
    votes = within(1, 1), within(1, 2), within(2, 3, write_remarks((), (0,)))
    assert TOLERANCE.decide(votes, QUORUM) is None
    assert TOLERANCE.count_wanted(votes, QUORUM) == 2


def test_a_lazy_seat_is_refuted_by_two_stages() -> None:
    bad = write_remarks((0,), ())
    votes = within(1, 1), within(1, 2), within(2, 3, bad), *(within(3, own, bad, NOTHING) for own in range(4, 10))
    assert TOLERANCE.decide(votes, QUORUM) == RIGHT
    assert judge(*votes) == [AnswerVerdict.REFUTED, *[AnswerVerdict.RIGHT] * 8]


def test_a_wrong_accusation_refutes_the_reviewer_and_an_unserved_state_does_not() -> None:
    for remarks, verdict in (
        (write_remarks((0,), ()), AnswerVerdict.REFUTED),
        (write_remarks((), (0,)), AnswerVerdict.RIGHT),
    ):
        good = (within(3, own, NOTHING, NOTHING) for own in range(4, 10))
        votes = within(1, 1), within(1, 2), within(2, 3, remarks), *good
        assert TOLERANCE.decide(votes, QUORUM) == RIGHT
        assert judge(*votes) == [AnswerVerdict.RIGHT] * 2 + [verdict] + [AnswerVerdict.RIGHT] * 6


def test_bad_seats_do_not_count_for_a_claim() -> None:
    """Two lazy seats vouch for a wrong claim; those who computed find it outside."""
    bad = write_remarks((0, 1), ())
    votes = [within(1, 1), within(1, 2), *(outside(2, own, bad) for own in range(3, 6)), outside(3, 6, bad, NOTHING)]
    found = TOLERANCE.decide(votes, QUORUM)
    assert found == Finding(AnswerKind.OUTSIDE, b"", 0)
    assert judge(*votes, finding=found)[:2] == [AnswerVerdict.REFUTED] * 2


def test_an_undecided_place_refutes_no_seat() -> None:
    bad = write_remarks((0,), ())
    votes = within(1, 1), within(2, 3, bad), within(3, 4, bad, NOTHING)
    assert AnswerVerdict.REFUTED not in judge(*votes, finding=None)


def test_a_seat_that_was_not_served_the_claim_loses_nothing() -> None:
    assert judge(UNSERVED, within(1, 1), within(1, 2))[0] is AnswerVerdict.ABSTAINED


@given(st.sets(st.integers(0, 2 * SEATS_MAX)), st.sets(st.integers(0, 2 * SEATS_MAX)))
def test_remarks_are_read_as_they_are_written(bad: set[int], unserved: set[int]) -> None:
    remarks = write_remarks(bad, unserved)
    assert len(remarks) == 32
    for number in range(2 * SEATS_MAX + 1):
        assert is_outside(remarks, number) is (number in bad and number < SEATS_MAX)
        assert is_remarked(remarks, number) is (number in bad | unserved and number < SEATS_MAX)


# --- places --------------------------------------------------------------------------------------


@given(st.binary(min_size=32, max_size=32), st.integers(1, 4), st.integers(1, 12), st.integers(1, 6))
def test_places_lie_apart_if_there_is_room(seed: bytes, slots: int, length: int, wanted: int) -> None:
    shares = [ShareExtent(slot, 1, length) for slot in range(slots)]
    wanted = min(wanted, slots * length)
    places = TOLERANCE.draw_places(seed, shares, wanted, None)
    plain = draw_places(seed, shares, wanted)
    assert len(places) == len(set(places)) == len(plain)
    assert places[:2] == plain[:2]
    segments = sorted((place.slot, place.segment) for place in places if place.kind is AuditKind.SEGMENT)
    assert len(segments) == wanted
    if 6 * wanted <= slots * length:
        assert all(one[0] != two[0] or two[1] - one[1] > 1 for one, two in pairwise(segments))
        update = places[1]
        assert (update.slot, update.segment - 1) not in segments


def test_the_place_of_a_stop_stays() -> None:
    stop = AuditPlace(kind=AuditKind.SEGMENT, slot=0, issue=1, segment=2)
    shares = [ShareExtent(0, 1, 2, stop), ShareExtent(1, 1, 6)]
    places = TOLERANCE.draw_places(bytes(32), shares, 3, stop)
    assert places[0] == stop
    assert len(places) == len(draw_places(bytes(32), shares, 3, stop))

"""A seat that compares states: it commits to its own, sees the provider's only afterwards, and serves its own later."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from domain.codec import decode, encode
from domain.keys import PanelKey
from domain.proof.messages import MsgCommitAnswer, MsgRevealAnswer
from domain.proof.queries import NumberedPlace, PanelDuty
from domain.proof.records import AnswerKind, SeatAnswer
from link.types import BlobRef, OpenedState
from pol.rules.tiers.remarks import write_remarks
from pol.rules.tiers.tolerance import TOLERANCE
from tests.support.chain_market import digest
from tests.unit.validator.support import CHAIN_ID, ME, ORDER_ID, OTHER, panel
from tests.unit.validator.support import seat as panel_seat
from tests.unit.validator.test_decide import with_openings
from tests.unit.validator.test_seats import (
    BEGAN,
    COMMITS_END,
    DUTY,
    KEY,
    LOCAL,
    ORDERED,
    PLACES,
    RIGHT,
    ROOT,
    SIZES,
    SUBJECT,
    look,
)
from validator.decide import actions as do
from validator.decide.duties import decide
from validator.decide.records import Compared, LocalSeat, Recomputed
from validator.decide.seats import (
    blob_awaited,
    find_fault,
    find_reviewed,
    job_loaded,
    may_see_end,
    opening_arrived,
    place_recomputed,
    reveal_by,
    serves_end,
    states_compared,
)
from validator.decide.tasks import audit_opening, end_opening
from validator.decide.view import Look, OwnPanel

ONLY = replace(DUTY, places=(NumberedPlace(2, PLACES[2]),), earlier_seeds=(digest("before"),))
ABOUT = replace(SUBJECT, tier=TOLERANCE.name)
OWN = digest("own end")
KEPT = OpenedState(index=1, global_state=BlobRef(digest("g"), 100), local_state=BlobRef(digest("l"), 50), metrics=())
DONE = Recomputed("", AnswerKind.OUTSIDE, b"", OWN)
NOTHING = write_remarks((), ())
FRIEND, LAZY = "friend", "lazy"


def of_first(name: str, number: int, own: bytes = OWN) -> SeatAnswer:
    del name
    return SeatAnswer(2, AnswerKind.WITHIN, ROOT, digest(own, number), 0)


SEATS = (
    replace(panel_seat(0, FRIEND, (0, 2)), revealed=True, answers=(of_first(FRIEND, 0),)),
    replace(panel_seat(1, LAZY, (2,)), revealed=True, answers=(of_first(LAZY, 1),)),
    replace(panel_seat(2, "silent", (2,))),
    replace(panel_seat(3, ME, (2,)), stage=2),
)


def about(*, is_open: bool = True) -> OwnPanel:
    found = panel(*PLACES, stage=2)
    return OwnPanel(replace(found, is_open=is_open, commits_end=COMMITS_END), SEATS)


def see(clock: int, duty: PanelDuty) -> Look:
    seen = look(clock, duty)
    return replace(seen, chain=replace(seen.chain, subjects={KEY: ABOUT}, earlier={KEY.panel: about()}))


def turn(seat: LocalSeat | None, clock: int, duty: PanelDuty = ONLY) -> tuple[LocalSeat, tuple[do.Action, ...]]:
    after, actions = decide(KEY, seat, see(clock, duty))
    assert isinstance(after, LocalSeat)
    return after, actions


def replayed(found: Recomputed = DONE) -> LocalSeat:
    seat, _ = turn(None, BEGAN)
    seat, _ = turn(opening_arrived(seat, 0, RIGHT), BEGAN + 1)
    seat = blob_awaited(job_loaded(seat, ORDERED, ORDERED, SIZES, ""), 0, b"")
    return place_recomputed(seat, 0, found, KEPT)


def message(actions: Iterable[do.Action]) -> MsgCommitAnswer | MsgRevealAnswer:
    (action,) = actions
    assert isinstance(action, do.SendAnswer)
    return action.message


def committed() -> tuple[LocalSeat, PanelDuty]:
    seat, actions = turn(replayed(), BEGAN + 2)
    return seat, replace(ONLY, commitment=_commitment(actions))


def _commitment(actions: Iterable[do.Action]) -> bytes:
    sent = message(actions)
    assert isinstance(sent, MsgCommitAnswer)
    return sent.commitment


def test_it_commits_before_it_asks_for_the_end_and_compares_only_when_no_one_can_commit() -> None:
    seat, duty = committed()
    assert turn(seat, COMMITS_END - 1, duty) == (seat, ())
    seat, (action,) = turn(seat, COMMITS_END, duty)
    assert isinstance(action, do.CompareStates)
    assert (action.claim, action.winner, action.stages) == (ROOT, OTHER, 1)
    assert action.ask_until < action.until == reveal_by(duty) < duty.reveals_end
    assert [(each.validator, each.number, each.root) for each in action.reviewed] == [
        (FRIEND, 0, of_first(FRIEND, 0).digest),
        (LAZY, 1, of_first(LAZY, 1).digest),
    ]
    assert decode(LocalSeat, encode(seat)) == seat


@pytest.mark.parametrize(
    ("compared", "kind", "root", "agreed"),
    [
        (Compared(AnswerKind.WITHIN, (NOTHING,)), AnswerKind.WITHIN, ROOT, True),
        (Compared(AnswerKind.OUTSIDE, (NOTHING,)), AnswerKind.OUTSIDE, b"", False),
        (Compared(AnswerKind.UNAVAILABLE, (NOTHING,)), AnswerKind.UNAVAILABLE, b"", False),
    ],
)
def test_it_shows_what_it_found_with_the_state_that_it_committed_to(
    compared: Compared, kind: AnswerKind, root: bytes, agreed: bool
) -> None:
    seat, duty = committed()
    seat, _ = turn(seat, COMMITS_END, duty)
    seat, actions = turn(states_compared(seat, 0, compared), COMMITS_END + 1, duty)
    reveal = message(actions)
    assert isinstance(reveal, MsgRevealAnswer)
    (answer,) = reveal.answers
    assert (answer.kind, answer.root, answer.digest) == (kind, root, OWN)
    assert answer.earlier == (() if kind is AnswerKind.UNAVAILABLE else (NOTHING,))
    key = PanelKey(ORDER_ID, 1, 0, 0)
    assert TOLERANCE.commitment(CHAIN_ID, key, 2, ME, reveal.salt, reveal.answers) == duty.commitment
    assert seat.sealed is not None
    assert seat.sealed.agreed is agreed
    # A later result changes nothing.
    assert turn(states_compared(seat, 0, Compared(AnswerKind.OUTSIDE)), COMMITS_END + 2, duty)[0] == seat


def test_a_winner_that_serves_no_end_is_unavailable_when_the_time_is_over() -> None:
    seat, duty = committed()
    before = reveal_by(duty) - 1
    assert isinstance(turn(seat, before, duty)[1][0], do.CompareStates)
    _, actions = turn(seat, reveal_by(duty), duty)
    reveal = message(actions)
    assert isinstance(reveal, MsgRevealAnswer)
    assert [(each.kind, each.digest) for each in reveal.answers] == [(AnswerKind.UNAVAILABLE, OWN)]


def test_a_seat_that_could_not_compute_commits_to_no_state() -> None:
    seat, _ = turn(None, BEGAN)
    seat, _ = turn(opening_arrived(seat, 0, RIGHT), BEGAN + 1)
    seat = blob_awaited(job_loaded(seat, ORDERED, ORDERED, SIZES, ""), 0, b"")
    seat, actions = turn(place_recomputed(seat, 0, Recomputed("no torch")), BEGAN + 2)
    assert isinstance(message(actions), MsgCommitAnswer)
    assert seat.sealed is not None
    assert seat.sealed.is_final
    assert [(each.kind, each.digest) for each in seat.sealed.answers] == [(AnswerKind.UNAVAILABLE, b"")]


# --- what is served ------------------------------------------------------------------------------


def test_an_end_is_seen_by_seats_of_the_open_stage_when_no_one_can_commit() -> None:
    now = about()
    assert may_see_end(now, ME, 2, COMMITS_END)
    assert not may_see_end(now, ME, 2, COMMITS_END - 1)
    assert not may_see_end(now, ME, 0, COMMITS_END)  # not a place of its seat
    assert not may_see_end(now, FRIEND, 2, COMMITS_END)  # its stage is over
    assert not may_see_end(about(is_open=False), ME, 2, COMMITS_END)


def test_an_own_end_is_served_to_later_stages_alone() -> None:
    seat = replace(replayed(), duty=replace(ONLY, stage=1))
    opening = serves_end(seat, about(), ME, 2, COMMITS_END)
    assert opening is not None
    assert opening.states == (KEPT,)
    assert serves_end(seat, about(), ME, 2, COMMITS_END - 1) is None
    assert serves_end(replace(seat, duty=ONLY), about(), ME, 2, COMMITS_END) is None
    bare = replace(seat, places=tuple(replace(place, kept=None) for place in seat.places))
    assert serves_end(bare, about(), ME, 2, COMMITS_END) is None


def test_the_last_stage_asks_only_seats_about_which_it_is_unclear() -> None:
    reviewer = replace(panel_seat(3, "v9", (2,)), stage=2, revealed=True)
    said = SeatAnswer(2, AnswerKind.WITHIN, ROOT, digest("third"), 0, (write_remarks((1,), ()),))
    now = OwnPanel(about().panel, (*SEATS[:3], replace(reviewer, answers=(said,))))
    assert [each.validator for each in find_reviewed(3, 2, now, is_last=False)] == [FRIEND, LAZY, "v9"]
    assert [each.validator for each in find_reviewed(3, 2, now, is_last=True)] == [LAZY]
    assert find_reviewed(3, 2, None, is_last=False) == ()


def test_a_winner_opens_the_end_of_a_segment_apart_from_its_start() -> None:
    record = with_openings(LOCAL, 1, 2, verified=True)
    end = end_opening(record, 0, PLACES[2])
    assert [state.index for state in end.states] == [1]
    assert not end_opening(LOCAL, 0, PLACES[1]).ready
    whole = audit_opening(record, 0, PLACES[2], with_end=True)
    assert [state.index for state in whole.states] == [0, 1]
    asked = PLACES[2], whole, ABOUT.terms, ABOUT.shares
    assert find_fault(*asked, (), with_end=True) == ""
    assert find_fault(*asked, ()) == "the opening lacks states, or has too many"

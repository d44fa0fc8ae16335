"""A seat's decisions: whatever the winner sends and whenever the daemon looks, one answer goes out, and in time."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.amount import ceil_div
from domain.codec import decode, encode
from domain.keys import PanelKey
from domain.proof.messages import MsgCommitAnswer, MsgRevealAnswer
from domain.proof.queries import NumberedPlace, PanelDuty, PanelResponse
from domain.proof.records import AnswerKind, AuditKind, AuditPlace, Ruling, SeatAnswer
from domain.registry.records import Validator
from link.handover import public_point
from link.types import AuditOpening, BlobRef, OpenedState, PayloadFile
from pol.rules.commitment import check_leaf
from pol.rules.panels import STAGE_TIMES
from pol.rules.schedule import share_segments
from pol.rules.tiers.answers import answer_commitment
from tests.support.chain_market import digest
from tests.unit.validator.support import (
    CHAIN_ID,
    FILES,
    ME,
    ORDER_ID,
    OTHER,
    TERMS,
    closed,
    ended,
    packet_of,
    panel,
    segment,
    share_of,
    signed_of,
    works,
)
from tests.unit.validator.support import seat as panel_seat
from tests.unit.validator.test_decide import planned, with_openings, with_packets
from validator.decide import actions as do
from validator.decide.duties import Upkeep, decide, duties
from validator.decide.records import (
    LocalSeat,
    LocalUpkeep,
    Recomputed,
    SeatKey,
    Sizes,
    seat_key,
)
from validator.decide.seats import (
    blob_awaited,
    commit_by,
    job_loaded,
    make_salt,
    new_seat,
    opening_arrived,
    payload_awaited,
    place_recomputed,
    serve_by,
)
from validator.decide.tasks import audit_opening
from validator.decide.view import ChainView, Look, OwnPanel

PLACES = (AuditPlace(AuditKind.AGGREGATION, 0, 0, 0), segment(1), segment(0))
# The second stage: the first one has decided place 1.
ASKED = (NumberedPlace(0, PLACES[0]), NumberedPlace(2, PLACES[2]))
AGGREGATION, SEGMENT = 0, 1  # where they stand in the duty
LOCAL = with_packets(planned())
ORDERED = replace(TERMS, payload_bytes=sum(file.blob.size for file in FILES) - 1, data_bytes=1)
COMMIT_SECONDS, BEGAN = 30, 10
RATE = 100
SUBJECT = PanelResponse(
    terms=ORDERED,
    price_limit=1,
    validator=OTHER,
    commit_seconds=COMMIT_SECONDS,
    round=closed(),
    panel=panel(*PLACES, stage=2),
    shares=tuple(share_of(signed_of(LOCAL, work), roots=packet_of(LOCAL, work).roots) for work in works(LOCAL)),
    accept_rate=RATE,
    tier="exact",
    order_key=public_point(b"\x07" * 32),
)
COMMITS_END = BEGAN + COMMIT_SECONDS
DUTY = PanelDuty(
    ORDER_ID,
    1,
    0,
    2,
    digest("seed"),
    ASKED,
    COMMITS_END,
    COMMITS_END + 20,
    b"",
)
KEY = seat_key(DUTY)
BY = commit_by(DUTY, SUBJECT)
SIZES = Sizes(100, 50, 90)
RIGHT = audit_opening(LOCAL, 0, PLACES[2])
ROOT = RIGHT.leaves[-1].boundary_root
AGGREGATED = audit_opening(LOCAL, 0, PLACES[0])
ODD = BlobRef(digest("odd"), 7)
OPENINGS = (
    RIGHT,
    AGGREGATED,
    replace(RIGHT, payload=()),
    replace(RIGHT, payload=(*FILES, PayloadFile("job.json/x", ODD))),
    replace(RIGHT, leaves=()),
    replace(RIGHT, leaves=RIGHT.leaves * 2),
    replace(RIGHT, states=()),
    replace(RIGHT, states=(OpenedState(0, ODD, ODD, ()),)),
    AuditOpening(True, 0, FILES, (), (), (), None),
)
DONE = (
    Recomputed("", AnswerKind.FINISHED, closed().next_root, digest("a")),
    Recomputed("", AnswerKind.FINISHED, ROOT, digest("b")),
)
SECRET = b"secret".ljust(32)


def look(clock: int, *duties_: PanelDuty, since: int = 0, rate: int = RATE) -> Look:
    own = Validator(ME, "", b"", b"", 1, False, "", b"", 0, 0, 0, 0, audit_rate=rate)
    seen = ChainView(
        clock,
        {},
        {ME: own},
        {},
        {},
        {seat_key(duty): duty for duty in duties_},
        {seat_key(duty): SUBJECT for duty in duties_},
    )
    return Look(seen, ME, CHAIN_ID, SECRET, since, seats=(KEY,))


def turn(
    seat: LocalSeat | None, clock: int, duty: PanelDuty = DUTY, since: int = 0
) -> tuple[LocalSeat, tuple[do.Action, ...]]:
    after, actions = decide(KEY, seat, look(clock, duty, since=since))
    assert isinstance(after, LocalSeat)
    return after, actions


@pytest.mark.parametrize(("given", "left"), [(5, 1), (6, 2), (9, 3), (12, 4), (24, 6), (90, 18)])
def test_who_gives_up_on_a_winner_has_time_for_two_blocks(given: int, left: int) -> None:
    """One with what is under way, and its own; a fifth of the time where that is more."""
    subject = replace(SUBJECT, commit_seconds=given)
    assert DUTY.commits_end - commit_by(DUTY, subject) == left
    # Its winner has had time before, and whoever keeps its promise replays in what is between.
    assert given - left - ceil_div(given, STAGE_TIMES) >= 1


def kinds(actions: Iterable[do.Action]) -> list[type]:
    return [type(action) for action in actions]


def sent(actions: tuple[do.Action, ...]) -> MsgCommitAnswer | MsgRevealAnswer:
    (action,) = actions
    assert isinstance(action, do.SendAnswer)
    return action.message


def found(seat: LocalSeat, *outcomes: Recomputed) -> LocalSeat:
    """Return the record when both places were opened, accepted, fetched and replayed."""
    seat, _ = turn(opening_arrived(seat, SEGMENT, RIGHT), BEGAN + 1)
    seat, _ = turn(opening_arrived(seat, AGGREGATION, AGGREGATED), BEGAN + 1)
    seat = job_loaded(seat, ORDERED, ORDERED, SIZES, "")
    for index, outcome in enumerate(outcomes):
        seat = place_recomputed(blob_awaited(seat, index, b""), index, outcome)
    return seat


def test_a_place_goes_from_its_opening_over_its_job_to_its_replay() -> None:
    seat, actions = turn(None, BEGAN)
    assert actions == (
        do.AskOpening(f"{KEY}/0/ask", KEY, AGGREGATION, 0, OTHER),
        do.AskOpening(f"{KEY}/2/ask", KEY, SEGMENT, 2, OTHER),
    )
    seat, actions = turn(opening_arrived(seat, SEGMENT, RIGHT), 11)
    assert kinds(actions) == [do.LoadAudited, do.AskOpening]
    assert seat.places[SEGMENT].opening == replace(RIGHT, payload=())
    seat, actions = turn(job_loaded(seat, ORDERED, ORDERED, SIZES, ""), 12)
    ask, replay = actions
    assert kinds([ask, replay]) == [do.AskOpening, do.ReplayPlace]
    assert isinstance(replay, do.ReplayPlace)
    # It ends with the time for it, however long it would take, and is of this stage.
    assert (replay.until, replay.seeds, replay.place) == (BY, DUTY.seeds, PLACES[2])
    seat = place_recomputed(seat, SEGMENT, DONE[1])
    seat, (replay,) = turn(opening_arrived(seat, AGGREGATION, AGGREGATED), 13)
    assert isinstance(replay, do.ReplayPlace)
    assert [share.claim.slot for share in replay.shares] == [0, 1]
    seat, actions = turn(place_recomputed(seat, AGGREGATION, DONE[0]), 14)
    assert isinstance(sent(actions), MsgCommitAnswer)
    assert decode(LocalSeat, encode(seat)) == seat


def test_a_commitment_is_shown_when_nobody_can_commit_any_more() -> None:
    seat, actions = turn(found(turn(None, BEGAN)[0], *DONE), 14)
    commit = sent(actions)
    assert isinstance(commit, MsgCommitAnswer)
    committed = replace(DUTY, commitment=commit.commitment)
    assert turn(seat, COMMITS_END - 1, committed) == (seat, ())
    assert turn(seat, COMMITS_END) == (seat, ())  # it did not come in time
    for clock, duty in (
        (COMMITS_END, committed),
        (15, replace(committed, commits_end=15)),  # everybody has committed
    ):
        (action,) = turn(seat, clock, duty)[1]
        assert isinstance(action, do.SendAnswer)
        assert action.agreed
        reveal = action.message
        assert isinstance(reveal, MsgRevealAnswer)
        made = answer_commitment(CHAIN_ID, PanelKey(ORDER_ID, 1, 0, 0), 2, ME, reveal.salt, reveal.answers)
        assert made == commit.commitment
        assert [answer.place for answer in reveal.answers] == [0, 2]
        (leaf,) = reveal.leaves
        assert leaf.place == 2
        assert SUBJECT.shares[0].roots is not None
        root = SUBJECT.shares[0].roots.trace_root
        assert check_leaf(root, share_segments(ORDERED), leaf.leaf)
    assert turn(seat, DUTY.reveals_end, committed) == (seat, ())
    # When it is shown, there is no duty any more.
    _, actions = decide(KEY, seat, look(COMMITS_END))
    assert kinds(actions) == [do.EndSeat]


def test_a_restart_shows_what_was_committed_to() -> None:
    """Whatever becomes known in between: other answers would not hash to the commitment, which is silence."""
    seat = blob_awaited(found(turn(None, BEGAN)[0], DONE[0]), SEGMENT, b"")
    seat, actions = turn(turn(seat, 12)[0], BY)
    commit = sent(actions)
    assert isinstance(commit, MsgCommitAnswer)
    again = decode(LocalSeat, encode(seat))
    late = place_recomputed(again, SEGMENT, DONE[1])
    committed = replace(DUTY, commitment=commit.commitment)
    reveal = sent(turn(late, COMMITS_END, committed)[1])
    assert isinstance(reveal, MsgRevealAnswer)
    assert [answer.place for answer in reveal.answers] == [0]
    assert turn(late, BY)[1] == actions


def test_a_daemon_that_lost_its_records_shows_what_it_committed_to_if_it_can() -> None:
    seat, actions = turn(found(turn(None, BEGAN)[0], *DONE), 14)
    commit = sent(actions)
    assert isinstance(commit, MsgCommitAnswer)
    committed = replace(DUTY, commitment=commit.commitment)
    fresh, actions = turn(None, COMMITS_END, committed)
    assert kinds(actions) == [do.AskOpening] * 2
    fresh = opening_arrived(opening_arrived(fresh, 0, AGGREGATED), 1, RIGHT)
    fresh, _ = turn(fresh, COMMITS_END, committed)
    fresh = job_loaded(fresh, ORDERED, ORDERED, SIZES, "")
    for index, outcome in enumerate(DONE):
        fresh = place_recomputed(fresh, index, outcome)
    reveal = sent(turn(fresh, COMMITS_END + 1, committed)[1])
    assert sent(turn(seat, COMMITS_END + 1, committed)[1]) == reveal
    other = replace(DONE[0], digest=digest("other"))
    fresh = replace(fresh, places=(replace(fresh.places[0], found=other), fresh.places[1]))
    assert turn(fresh, COMMITS_END + 1, committed)[1] == ()


def test_nobody_else_can_make_the_salt() -> None:
    key = SeatKey(ORDER_ID, 1, 0, 0, 2)
    salts = [
        make_salt(SECRET, CHAIN_ID, key),
        make_salt(b"other".ljust(32), CHAIN_ID, key),
        make_salt(SECRET, "assay-other", key),
        make_salt(SECRET, CHAIN_ID, replace(key, stage=1)),
        make_salt(SECRET, CHAIN_ID, replace(key, round=1)),
        make_salt(SECRET, CHAIN_ID, replace(key, dispute=1)),
    ]
    assert len(set(salts)) == len(salts)


def test_a_copied_answer_is_not_what_another_seat_committed_to() -> None:
    """The commitment binds the name: shown under another one, the same answers hash to something else."""
    seat, _ = turn(found(turn(None, BEGAN)[0], *DONE), 14)
    assert seat.sealed
    where = (CHAIN_ID, PanelKey(ORDER_ID, 1, 0, 0), 2)
    mine = answer_commitment(*where, ME, seat.sealed.salt, seat.sealed.answers)
    assert mine == seat.sealed.commitment
    assert answer_commitment(*where, OTHER, seat.sealed.salt, seat.sealed.answers) != mine


def test_what_differs_from_the_chain_is_answered_and_noted() -> None:
    wrong = (replace(DONE[0], root=digest("other")), replace(DONE[1], root=digest("other")))
    stop = Recomputed("", AnswerKind.STOPPED, b"", digest("c"), 3)
    for outcomes in ((wrong[0], DONE[1]), (DONE[0], wrong[1]), (stop, DONE[1])):
        seat, (action,) = turn(found(turn(None, BEGAN)[0], *outcomes), 14)
        assert isinstance(action, do.SendAnswer)
        assert not action.agreed
        assert seat.sealed
        said = seat.sealed.answers
        assert [answer.digest for answer in said] == [o.digest for o in outcomes]
    assert said[0] == SeatAnswer(0, AnswerKind.STOPPED, b"", digest("c"), 3)


def test_what_is_not_what_the_chain_has_is_unavailable_and_says_why() -> None:
    for opening, why in zip(
        OPENINGS[1:],
        (
            "the opening's leaves are not those of the place",
            "the job in the opening is not the order's job",
            "the opening's payload does not have the order's size, or its paths collide",
            "the opening's leaves are not those of the place",
            "the opening's leaves are not those of the place",
            "the opening lacks states, or has too many",
            "",
            "the opening's leaves are not those of the place",
        ),
        strict=True,
    ):
        seat, _ = turn(opening_arrived(new_seat(DUTY, BEGAN), SEGMENT, opening), 11)
        assert seat.places[SEGMENT].unavailable == why
    sized = replace(seat, sizes=SIZES, places=new_seat(DUTY, 1).places)
    odd, _ = turn(opening_arrived(sized, SEGMENT, OPENINGS[7]), 11)
    assert odd.places[SEGMENT].unavailable == "a state or an update in the opening has a wrong size"


# The end of the time


def answers(seat: LocalSeat, clock: int = BY, since: int = 0) -> list[tuple[int, AnswerKind]]:
    after, _ = turn(seat, clock, since=since)
    assert after.sealed
    return [(answer.place, answer.kind) for answer in after.sealed.answers]


NOTHING_SERVED = [(0, AnswerKind.UNAVAILABLE), (2, AnswerKind.UNAVAILABLE)]


def test_a_winner_that_serves_nothing_is_unavailable_and_a_busy_seat_is_silent() -> None:
    seat, _ = turn(None, BEGAN)
    assert answers(seat) == NOTHING_SERVED
    # A seat that was away itself does not know.
    assert answers(seat, since=BY - 2) == []
    late, _ = turn(None, serve_by(DUTY, SUBJECT))
    assert answers(late) == []
    assert turn(late, BY)[1] == ()
    # A file of the job never came; its name is in the answer.
    opened = opening_arrived(opening_arrived(seat, SEGMENT, RIGHT), AGGREGATION, AGGREGATED)
    opened, _ = turn(opened, 11)
    waiting = payload_awaited(opened, digest("file"))
    assert answers(waiting) == NOTHING_SERVED
    sealed = turn(waiting, BY)[0].sealed
    assert sealed
    assert {answer.root for answer in sealed.answers} == {digest("file")}
    # It is here, and does not load in time: that is this machine's.
    assert answers(payload_awaited(waiting, b"")) == []


def through_a_crash(seat: LocalSeat, down: int, up: int) -> LocalSeat:
    """Return a record after looks in every second but those between ``down`` and ``up``."""
    for clock in range(seat.looked, down + 1):
        seat, _ = turn(seat, clock)
    seat = decode(LocalSeat, encode(seat))
    for clock in range(up, BY):
        seat, _ = turn(seat, clock, since=up)
    return seat


@pytest.mark.parametrize("down", range(BEGAN, BY))
def test_a_crash_of_a_second_keeps_no_seat_from_what_it_has_to_say(down: int) -> None:
    """Also where it comes when the winner's time ends: what was asked of it before counts."""
    seat = through_a_crash(turn(None, BEGAN)[0], down, down + 1)
    assert answers(seat, since=down + 1) == NOTHING_SERVED


def test_a_seat_that_was_away_when_the_time_ended_accuses_nobody_who_serves_then() -> None:
    last = serve_by(DUTY, SUBJECT)
    done = place_recomputed(found(turn(None, BEGAN)[0]), AGGREGATION, DONE[0])
    # What came is not finished, and would have come before if somebody had taken it.
    up = last + 2
    seat, _ = turn(through_a_crash(done, last - 1, up), up, since=up)
    seat, _ = turn(blob_awaited(seat, SEGMENT, b""), last + 3, since=up)
    assert answers(seat, since=up) == [(0, AnswerKind.FINISHED)]
    # The same in the last second before the crash.
    served = blob_awaited(turn(done, last)[0], SEGMENT, b"")
    served, _ = turn(served, up, since=up)
    assert answers(served, since=up) == [(0, AnswerKind.FINISHED)]
    # Who began to ask and was away from then on knows nothing.
    assert answers(through_a_crash(done, BEGAN + 1, BY), since=BY) == [(0, AnswerKind.FINISHED)]


def test_a_blob_that_does_not_come_is_named_and_what_came_and_is_not_finished_is_left_out() -> None:
    seat = found(turn(None, BEGAN)[0])
    seat = blob_awaited(seat, AGGREGATION, digest("update"))
    seat, _ = turn(blob_awaited(seat, SEGMENT, b""), 12)
    after, _ = turn(seat, BY)
    assert after.sealed
    assert after.sealed.answers == (SeatAnswer(0, AnswerKind.UNAVAILABLE, digest("update"), b"", 0),)
    assert [leaf.place for leaf in after.sealed.leaves] == [2]


def test_who_serves_in_the_last_moment_makes_no_seat_look_silent() -> None:
    """So late that a seat which keeps its promise cannot be done: the winner is at fault."""
    last = serve_by(DUTY, SUBJECT)
    for served, wanted in ((last, []), (last + 1, [(2, AnswerKind.UNAVAILABLE)])):
        seat = place_recomputed(found(turn(None, BEGAN)[0]), AGGREGATION, DONE[0])
        seat, _ = turn(blob_awaited(seat, SEGMENT, b""), served)
        assert seat.places[SEGMENT].served_at == served
        assert answers(seat) == [(0, AnswerKind.FINISHED), *wanted]
    # So late that the seat sees it only when it commits.
    seat = place_recomputed(found(turn(None, BEGAN)[0]), AGGREGATION, DONE[0])
    assert answers(blob_awaited(seat, SEGMENT, b""))[1:] == [(2, AnswerKind.UNAVAILABLE)]


def test_more_than_the_rate_that_is_owed_is_not_asked_for() -> None:
    """Neither of the winner nor of the own line: what could not have come yet accuses nobody."""
    seat = found(turn(None, BEGAN)[0])
    seat = place_recomputed(blob_awaited(seat, SEGMENT, b"x"), AGGREGATION, DONE[0])
    assert answers(seat)[1:] == [(2, AnswerKind.UNAVAILABLE)]
    after, _ = decide(KEY, seat, look(BY, DUTY, rate=1))
    assert isinstance(after, LocalSeat)
    assert after.sealed
    assert [answer.place for answer in after.sealed.answers] == [0]


def test_seats_are_seen_to_by_their_deadlines_and_forgotten_when_they_are_over() -> None:
    other = replace(DUTY, round=1, commits_end=COMMITS_END - 5)
    first = replace(DUTY, round=2, commits_end=COMMITS_END - 9)
    seen = look(50, other, DUTY, first)
    assert list(duties(seen)) == [Upkeep(), seat_key(first), seat_key(other), KEY]
    _, actions = decide(KEY, new_seat(DUTY, BEGAN), look(50))
    assert kinds(actions) == [do.EndSeat]
    assert decide(KEY, None, replace(seen, chain=replace(seen.chain, subjects={}))) == (None, ())
    assert kinds(decide(Upkeep(), LocalUpkeep(), replace(look(50), endpoint="here:1"))[1]) == []


outcomes = st.builds(
    Recomputed,
    st.sampled_from(["", "the states that the winner sent do not have the roots on the chain"]),
    st.sampled_from([AnswerKind.FINISHED, AnswerKind.STOPPED]),
    st.sampled_from([digest("root"), ROOT]),
    st.just(digest("digest")),
)
places = st.integers(0, len(ASKED) - 1)
arrivals = st.one_of(
    st.tuples(st.just("opening"), places, st.sampled_from(OPENINGS)),
    st.tuples(st.just("loaded"), st.booleans()),
    st.tuples(st.just("blob"), places, st.sampled_from([b"", digest("blob")])),
    st.tuples(st.just("replayed"), places, outcomes),
    st.just(("crash",)),
    st.just(("nothing",)),
)


def arrive(seat: LocalSeat, event: tuple[object, ...]) -> LocalSeat:
    match event:
        case ("opening", int(index), AuditOpening() as opening):
            return opening_arrived(seat, index, opening)
        case ("loaded", bool(right)):
            return job_loaded(seat, ORDERED, ORDERED if right else None, SIZES, "")
        case ("blob", int(index), bytes(name)):
            return blob_awaited(seat, index, name)
        case ("replayed", int(index), Recomputed() as outcome):
            return place_recomputed(seat, index, outcome)
        case ("crash",):
            return decode(LocalSeat, encode(seat))
    return seat


@given(
    st.integers(BEGAN, BY - 6),
    st.lists(st.tuples(arrivals, st.integers(0, 3)), max_size=40),
    st.data(),
)
def test_a_commitment_goes_out_before_the_time_is_over(
    begun: int, events: list[tuple[tuple[object, ...], int]], data: st.DataObject
) -> None:
    """From its first look on, as long as no two looks are further apart than what is left for the transaction."""
    seat, _ = turn(None, begun)
    clock, left = begun, COMMITS_END - BY
    for event, seconds in events:
        if seat.sealed is not None:
            break
        clock += min(seconds, left - 1)
        seat, _ = turn(arrive(seat, event), clock)
    while seat.sealed is None:
        assert clock < BY
        clock += data.draw(st.integers(1, max(1, left - 1)))
        seat, _ = turn(seat, clock)
    assert clock < COMMITS_END
    said = {answer.place for answer in seat.sealed.answers}
    for place, asked in zip(seat.places, ASKED, strict=True):
        if place.found is not None or place.unavailable:
            assert asked.number in said
    # Until the chain has it, it is asked for again, and nothing changes it any more.
    after, actions = turn(arrive(seat, ("replayed", 0, DONE[0])), clock)
    assert after.sealed == seat.sealed
    assert kinds(actions) == ([do.SendAnswer] if said else [])


# --- where the job stops -------------------------------------------------------------------------


def stopped_subject(segments: int) -> tuple[PanelResponse, AuditOpening]:
    """Return a round that was closed where slot 0 stops, and what the winner sends for the place."""
    (current,) = LOCAL.rounds
    first, second = current.works
    packet = ended(packet_of(LOCAL, first), segments)
    record = replace(LOCAL, rounds=(replace(current, works=(replace(first, packet=packet), second)),))
    record = with_openings(record, *range(1, segments + 1), verified=True)
    place = AuditPlace(AuditKind.SEGMENT, 0, 1, segments)
    about = panel(place, segment(0), stage=2)
    about = replace(about, places=(replace(about.places[0], stops=True), about.places[1]))
    shares = (
        replace(SUBJECT.shares[0], roots=packet.roots),
        SUBJECT.shares[1],
    )
    subject = replace(
        SUBJECT,
        round=replace(closed(), next_root=b"", stopped=place),
        panel=about,
        shares=shares,
    )
    return subject, audit_opening(record, 0, place)


@pytest.mark.parametrize("segments", [0, 2])
def test_a_seat_says_where_the_job_stops_and_shows_no_leaf_for_it(segments: int) -> None:
    subject, opening = stopped_subject(segments)
    assert [leaf.index for leaf in opening.leaves] == ([segments] if segments else [])
    asked = NumberedPlace(0, subject.panel.places[0].place)
    duty = replace(DUTY, places=(asked,))

    def see(clock: int) -> Look:
        seen = look(clock, duty)
        return replace(seen, chain=replace(seen.chain, subjects={KEY: subject}))

    def go_on(seat: LocalSeat | None, clock: int) -> tuple[LocalSeat, tuple[do.Action, ...]]:
        after, actions = decide(KEY, seat, see(clock))
        assert isinstance(after, LocalSeat)
        return after, actions

    seat, _ = go_on(None, BEGAN)
    seat, _ = go_on(opening_arrived(seat, 0, opening), BEGAN + 1)
    assert seat.places[0].accepted
    seat = job_loaded(seat, ORDERED, ORDERED, SIZES, "")
    seat = blob_awaited(seat, 0, b"")
    # The share claims that it stops in the first step of its segment.
    at = segments * ORDERED.segment_steps
    stops, later = (Recomputed("", AnswerKind.STOPPED, b"", digest("before"), step) for step in (at, at + 1))
    for found, agreed in ((stops, True), (later, False), (DONE[1], False)):
        done, actions = go_on(place_recomputed(seat, 0, found), BEGAN + 2)
        assert isinstance(sent(actions), MsgCommitAnswer)
        assert done.sealed is not None
        assert done.sealed.agreed is agreed
        assert done.sealed.leaves == ()
        assert [answer.kind for answer in done.sealed.answers] == [found.kind]


def test_an_opening_behind_a_stop_is_not_taken() -> None:
    """Whoever sends a leaf more than the share has sends another trace."""
    subject, opening = stopped_subject(2)
    duty = replace(DUTY, places=(NumberedPlace(0, subject.panel.places[0].place),))
    seen = look(BEGAN, duty)
    seen = replace(seen, chain=replace(seen.chain, subjects={KEY: subject}))
    for leaves in ((), RIGHT.leaves, (*opening.leaves, *opening.leaves)):
        seat, _ = decide(KEY, None, seen)
        assert isinstance(seat, LocalSeat)
        seat, _ = decide(KEY, opening_arrived(seat, 0, replace(opening, leaves=leaves)), seen)
        assert isinstance(seat, LocalSeat)
        assert seat.places[0].unavailable


# --- seats of earlier and of later stages ---------------------------------------------------------

FRIEND, LAZY = "friend", "lazy"
DIGESTED = SeatAnswer(0, AnswerKind.FINISHED, ROOT, digest("work"), 0)
ABSTAINED = SeatAnswer(0, AnswerKind.UNAVAILABLE, b"", b"", 0)


def earlier(**changes: Any) -> OwnPanel:
    """Return the panel in its second stage: of its first seats one worked, one abstained and one was silent."""
    first = panel_seat(0, FRIEND, (0, 2))
    seats = (
        replace(first, revealed=True, answers=(DIGESTED,)),
        replace(first, number=1, validator=LAZY, revealed=True, answers=(ABSTAINED,)),
        replace(first, number=2, validator="silent"),
        replace(first, number=3, validator=ME, stage=2),
    )
    return OwnPanel(panel(*PLACES, stage=2, **changes), seats)


def with_earlier(clock: int, about: OwnPanel, *duties_: PanelDuty) -> Look:
    now = look(clock, *duties_)
    return replace(now, chain=replace(now.chain, earlier={KEY.panel: about}))


def helped(seat: LocalSeat | None, clock: int) -> tuple[LocalSeat, tuple[do.Action, ...]]:
    after, actions = decide(KEY, seat, with_earlier(clock, earlier(), DUTY))
    assert isinstance(after, LocalSeat)
    return after, actions


HALF = BEGAN + (serve_by(DUTY, SUBJECT) - BEGAN) // 2


def test_earlier_seats_that_showed_work_are_asked_once_half_of_the_time_is_over() -> None:
    seat, _ = helped(None, BEGAN)
    seat, actions = helped(seat, HALF - 1)
    assert [action.helpers for action in actions if isinstance(action, do.AskOpening)] == [(), ()]
    seat, actions = helped(seat, HALF)
    assert [action.helpers for action in actions if isinstance(action, do.AskOpening)] == [(FRIEND,)] * 2


@pytest.mark.parametrize("opening", [*OPENINGS[1:7], OPENINGS[8]])
def test_a_wrong_opening_of_an_earlier_seat_says_nothing_about_the_winner(opening: AuditOpening) -> None:
    seat, _ = helped(None, HALF)
    seat, actions = helped(opening_arrived(seat, SEGMENT, opening, FRIEND), HALF)
    assert not seat.places[SEGMENT].unavailable
    assert seat.places[SEGMENT].opening is None
    assert seat.unhelpful == (FRIEND,)
    assert [action.helpers for action in actions if isinstance(action, do.AskOpening)] == [(), ()]
    # What the winner sends then counts.
    seat, _ = helped(opening_arrived(seat, SEGMENT, RIGHT), HALF)
    assert seat.places[SEGMENT].accepted
    assert decode(LocalSeat, encode(seat)) == seat


def test_states_of_an_earlier_seat_that_do_not_hash_say_nothing_either() -> None:
    seat, _ = helped(None, HALF)
    seat, _ = helped(opening_arrived(seat, SEGMENT, RIGHT, FRIEND), HALF)
    assert seat.places[SEGMENT].accepted
    seat = place_recomputed(seat, SEGMENT, Recomputed("the states do not hash to the root"))
    assert seat.places[SEGMENT].is_open
    assert not seat.places[SEGMENT].accepted
    assert seat.unhelpful == (FRIEND,)


def test_a_seat_keeps_what_it_fetched_until_its_places_are_decided() -> None:
    seat = found(turn(None, BEGAN)[0], *DONE)
    assert decide(KEY, seat, with_earlier(50, earlier())) == (seat, ())
    for about in (earlier(is_settled=True), None):
        now = with_earlier(50, about) if about else look(50)
        _, actions = decide(KEY, seat, now)
        assert kinds(actions) == [do.EndSeat]
    decided = tuple(replace(place, ruling=Ruling.RIGHT) for place in earlier().panel.places)
    _, actions = decide(KEY, seat, with_earlier(50, earlier(places=decided)))
    assert kinds(actions) == [do.EndSeat]
    # A seat that got nothing has nothing to keep.
    _, actions = decide(KEY, turn(None, BEGAN)[0], with_earlier(50, earlier()))
    assert kinds(actions) == [do.EndSeat]

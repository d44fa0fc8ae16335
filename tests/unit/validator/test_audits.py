"""An auditor's decisions: whatever the winner sends and whenever the daemon looks, an answer goes out in time."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from domain.codec import decode, encode
from domain.messages import MsgAnswerAudit
from domain.queries import AuditDuty
from domain.records import AuditKind, Place
from link.types import AuditOpening, BlobRef, OpenedState, PayloadFile
from tests.support.chain_market import digest
from tests.unit.validator.support import (
    CHAIN_ID,
    FILES,
    ME,
    ORDER_ID,
    OTHER,
    TERMS,
    chain,
    closed,
    packet_of,
    segment,
    share_of,
    signed_of,
    works,
)
from tests.unit.validator.test_decide import planned, with_packets
from validator.decide import actions as do
from validator.decide.audits import (
    ANSWER_SECONDS,
    UNAVAILABLE,
    answer_by,
    audited_loaded,
    new_audit,
    opening_arrived,
    place_replayed,
)
from validator.decide.duties import Upkeep, decide, duties
from validator.decide.records import LocalAudit, LocalUpkeep, ReplayOutcome, Sizes
from validator.decide.tasks import audit_opening
from validator.decide.view import ChainView, Look

PLACES = (segment(0), Place(AuditKind.AGGREGATION, 0, 0, 0))
LOCAL = with_packets(planned())
ON_CHAIN = chain(
    ordered={
        "terms": replace(
            TERMS, payload_bytes=sum(file.blob.size for file in FILES) - 1, data_bytes=1
        )
    },
    assigned={"validator": OTHER},
    shares=tuple(
        share_of(signed_of(LOCAL, work), roots=packet_of(LOCAL, work).roots)
        for work in works(LOCAL)
    ),
    rounds=(closed(),),
)
DUTY = AuditDuty(ORDER_ID, 1, 0, PLACES, 100)
SIZES = Sizes(100, 50, 90)
RIGHT = audit_opening(LOCAL, 0, PLACES[0])
ODD = BlobRef(digest("odd"), 7)
OPENINGS = (
    RIGHT,
    audit_opening(LOCAL, 0, PLACES[1]),
    replace(RIGHT, payload=()),
    replace(RIGHT, payload=(*FILES, PayloadFile("job.json/x", ODD))),
    replace(RIGHT, leaves=()),
    replace(RIGHT, leaves=RIGHT.leaves * 2),
    replace(RIGHT, states=()),
    replace(RIGHT, states=(OpenedState(0, ODD, ODD, ()),)),
    AuditOpening(True, 0, FILES, (), (), (), None),
)


def look(clock: int, *audits: AuditDuty) -> Look:
    seen = ChainView(clock, {}, {}, {}, audits, dict.fromkeys(audits, ON_CHAIN))
    return Look(seen, ME, CHAIN_ID, b"secret", audits=(DUTY,))


def turn(audit: LocalAudit | None, clock: int) -> tuple[LocalAudit, tuple[do.Action, ...]]:
    after, actions = decide(DUTY, audit, look(clock, DUTY))
    assert isinstance(after, LocalAudit)
    return after, actions


def kinds(actions: tuple[do.Action, ...]) -> list[type]:
    return [type(action) for action in actions]


def test_a_place_goes_from_its_opening_over_its_job_to_its_replay() -> None:
    audit, actions = turn(None, 10)
    assert kinds(actions) == [do.AskOpening, do.AskOpening]
    audit, actions = turn(opening_arrived(audit, 0, RIGHT), 11)
    assert kinds(actions) == [do.LoadAudited, do.AskOpening]
    assert audit.places[0].opening == replace(RIGHT, payload=())
    terms = ON_CHAIN.order.terms
    audit, actions = turn(audited_loaded(audit, terms, terms, SIZES, ""), 12)
    assert kinds(actions) == [do.ReplayPlace, do.AskOpening]
    root = RIGHT.leaves[-1].boundary_root
    audit = place_replayed(audit, 0, ReplayOutcome(0, root, (b"step",)))
    audit, actions = turn(opening_arrived(audit, 1, OPENINGS[1]), 13)
    (replay,) = actions
    assert isinstance(replay, do.ReplayPlace)
    assert [share.claim.slot for share in replay.shares] == [0, 1]
    wrong = place_replayed(audit, 1, ReplayOutcome(0, digest("other"), ()))
    audit = place_replayed(audit, 1, ReplayOutcome(0, closed().next_root, ()))
    (answer,) = turn(audit, 14)[1]
    assert isinstance(answer, do.AnswerAudit)
    assert answer.agreed
    assert [item.root for item in answer.message.answers] == [root, closed().next_root]
    assert decode(LocalAudit, encode(audit)) == audit
    (answer,) = turn(wrong, 14)[1]
    assert isinstance(answer, do.AnswerAudit)
    assert not answer.agreed


def test_what_is_not_what_the_chain_has_is_unavailable_and_says_why() -> None:
    for opening, why in zip(
        OPENINGS[1:],
        (
            "leaves of other boundaries",
            "another job",
            "a payload of another size",
            "leaves of other boundaries",
            "leaves of other boundaries",
            "no states",
            "",
            "leaves of other boundaries",
        ),
        strict=True,
    ):
        audit, _ = turn(opening_arrived(new_audit(DUTY, 10), 0, opening), 11)
        assert audit.places[0].unavailable == why
    sized = replace(audit, sizes=SIZES)
    odd, _ = turn(
        opening_arrived(replace(sized, places=new_audit(DUTY, 1).places), 0, OPENINGS[7]), 11
    )
    assert odd.places[0].unavailable == "a state or update of another size"


def test_an_audit_that_is_answered_or_over_is_forgotten() -> None:
    audit = new_audit(DUTY, 10)
    assert list(duties(look(50))) == [Upkeep(), DUTY]
    _, actions = decide(DUTY, audit, look(50))
    assert kinds(actions) == [do.EndAudit]
    assert turn(audit, DUTY.draw_ends)[1] == ()
    assert kinds(decide(Upkeep(), LocalUpkeep(), replace(look(50), endpoint="here:1"))[1]) == []


outcomes = st.builds(
    ReplayOutcome,
    st.sampled_from([0, 10_100]),
    st.sampled_from([b"", digest("root"), RIGHT.leaves[-1].boundary_root]),
    st.just(()),
)
places = st.integers(0, len(PLACES) - 1)
arrivals = st.one_of(
    st.tuples(st.just("opening"), places, st.sampled_from(OPENINGS)),
    st.tuples(st.just("loaded"), st.booleans()),
    st.tuples(st.just("replayed"), places, outcomes),
    st.just(("crash",)),
    st.just(("nothing",)),
)


def arrive(audit: LocalAudit, event: tuple[object, ...]) -> LocalAudit:
    terms = ON_CHAIN.order.terms
    match event:
        case ("opening", int(index), AuditOpening() as opening):
            return opening_arrived(audit, index, opening)
        case ("loaded", bool(right)):
            sizes = SIZES if right else None
            return audited_loaded(audit, terms, terms if right else None, sizes, "")
        case ("replayed", int(index), ReplayOutcome() as outcome):
            return place_replayed(audit, index, outcome)
        case ("crash",):
            return decode(LocalAudit, encode(audit))
    return audit


@given(st.integers(1, 99), st.lists(st.tuples(arrivals, st.integers(0, 3)), max_size=40), st.data())
def test_an_answer_goes_out_before_the_draw_ends(
    begun: int, events: list[tuple[tuple[object, ...], int]], data: st.DataObject
) -> None:
    """From its first look on, as long as no two looks are further apart than what is left for the transaction."""
    audit, actions = turn(None, begun)
    clock, left = begun, DUTY.draw_ends - answer_by(audit)
    assert left >= ANSWER_SECONDS
    for event, seconds in events:
        if do.AnswerAudit in kinds(actions):
            break
        clock += min(seconds, left - 1)
        audit, actions = turn(arrive(audit, event), clock)
    while do.AnswerAudit not in kinds(actions):
        assert clock < answer_by(audit)
        clock += data.draw(st.integers(1, max(1, left - 1)))
        audit, actions = turn(audit, clock)
    assert clock < DUTY.draw_ends
    (answer,) = (action for action in actions if isinstance(action, do.AnswerAudit))
    assert isinstance(answer.message, MsgAnswerAudit)
    assert len(answer.message.answers) == len(PLACES)
    for place, item in zip(audit.places, answer.message.answers, strict=True):
        assert (item == UNAVAILABLE) == (place.outcome is None)
    # Until the chain has it, it is asked for again.
    if clock + 1 < DUTY.draw_ends:
        assert kinds(turn(audit, clock + 1)[1]) == [do.AnswerAudit]

"""The tier ``exact``: what answers commit to, and what they decide."""

from dataclasses import replace
from typing import Any

from domain.keys import RoundKey
from domain.proof.records import AnswerKind, Finding, Ruling, SeatAnswer
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.tier import AnswerVerdict, Quorum, Vote
from tests.support.chain_market import digest

SEED = digest("seed")
KEY = RoundKey(digest("order"), 1, 2)
FINISHED, STOPPED, UNAVAILABLE = AnswerKind
RIGHT = Finding(FINISHED, digest("right"), 0)


def answer(root: str = "right", found: str = "work", place: int = 0) -> SeatAnswer:
    return SeatAnswer(place, FINISHED, digest(root), digest(root, found), 0)


def votes(*said: SeatAnswer | None, stage: int = 1, stake: int = 1) -> list[Vote]:
    return [Vote(stage, stake, one) for one in said]


NOT_SERVED = SeatAnswer(0, UNAVAILABLE, b"", b"", 0)


# --- answers -------------------------------------------------------------------------------------


def test_a_digest_is_of_the_seed_the_roots_inside_and_the_state_however_it_comes() -> None:
    roots = [digest(1), digest(2)]
    made = EXACT.digest(SEED, roots, [b"state"])
    assert made == EXACT.digest(SEED, iter(roots), [b"st", b"", b"ate"])
    others = [
        EXACT.digest(digest("other"), roots, [b"state"]),
        EXACT.digest(SEED, roots[:1], [b"state"]),
        EXACT.digest(SEED, roots[::-1], [b"state"]),
        EXACT.digest(SEED, roots, [b"State"]),
        EXACT.digest(SEED, (), [b"".join(roots), b"state"]),
    ]
    assert len({made, *others}) == 6


def test_a_commitment_is_of_one_seat_of_one_stage_and_of_all_its_answers() -> None:
    given = (answer(), answer(place=1), SeatAnswer(2, STOPPED, b"", digest("work"), 7))
    made = [
        EXACT.commitment("chain", KEY, 1, "seat", SEED, given),
        EXACT.commitment("other", KEY, 1, "seat", SEED, given),
        EXACT.commitment("chain", replace(KEY, round=3), 1, "seat", SEED, given),
        EXACT.commitment("chain", KEY, 2, "seat", SEED, given),
        EXACT.commitment("chain", KEY, 1, "copier", SEED, given),
        EXACT.commitment("chain", KEY, 1, "seat", digest("salt"), given),
        EXACT.commitment("chain", KEY, 1, "seat", SEED, given[:2]),
        EXACT.commitment("chain", KEY, 1, "seat", SEED, (*given[:2], replace(given[2], step=8))),
    ]
    assert len(set(made)) == len(made)


# --- rulings -------------------------------------------------------------------------------------


def decide(said: list[Vote], **changes: Any) -> Finding | None:
    of = {"auditors": 3, "eligible": 9, "stake": 9, "is_last": False} | changes
    return EXACT.decide(said, Quorum(**of))


def test_more_than_two_thirds_of_enough_seats_decide() -> None:
    assert decide(votes(answer(), answer(), answer())) == RIGHT
    assert decide(votes(answer(), answer(), answer("wrong"))) is None
    assert decide(votes(answer(), answer(), None)) is None
    assert decide(votes(answer(), answer(), None), eligible=2) == RIGHT
    assert decide(votes(answer(), None), auditors=2, eligible=1) == RIGHT
    assert decide(votes(None, None, None)) is None
    assert decide([], auditors=3, eligible=0) is None


def test_one_accomplice_decides_nothing_where_the_others_are_kept_busy() -> None:
    """However many stages it takes: silence is no answer, and never lowers what is needed."""
    said = votes(answer("lie"), None, None)
    assert decide(said) is None
    said += votes(None, None, stage=2)
    assert decide(said) is None
    said += votes(None, None, None, None, stage=4)
    assert decide(said, is_last=True) is None


def test_in_the_last_stage_more_than_half_of_all_stake_decides_the_silent_counted() -> None:
    said = votes(answer("lie"), answer("lie"), answer("lie"), answer("lie"), None)
    assert decide(said, is_last=True) is None
    assert decide([*said, *votes(answer("lie"), stage=4)], is_last=True) == Finding(FINISHED, digest("lie"), 0)
    rich = Vote(4, 5, answer())
    assert decide([*votes(answer("lie"), answer("lie")), rich], is_last=True) == RIGHT


def test_the_root_alone_is_no_answer_of_the_same_stage() -> None:
    """Who reads a root from a trace cannot make the digest, and is one of those who differ."""
    said = votes(answer(), answer(), answer(found="nothing"))
    assert decide(said) is None
    assert EXACT.differ(said)
    said += votes(*[answer(found="later work")] * 6, stage=2)
    assert decide(said) == RIGHT
    assert EXACT.judge(said, RIGHT)[:3] == (AnswerVerdict.UNKNOWN,) * 3
    said = votes(answer(), answer(), answer(), answer(found="nothing"))
    assert EXACT.judge(said, RIGHT) == (*(AnswerVerdict.RIGHT,) * 3, AnswerVerdict.DIFFERENT)


def test_later_stages_have_other_digests_and_count_together() -> None:
    said = votes(answer(), answer(), None) + votes(answer(found="work of stage 2"), stage=2)
    assert not EXACT.differ(said)
    assert decide(said) == RIGHT
    assert EXACT.judge(said, RIGHT) == (
        AnswerVerdict.RIGHT,
        AnswerVerdict.RIGHT,
        AnswerVerdict.SILENT,
        AnswerVerdict.RIGHT,
    )


def test_any_blob_that_was_not_served_is_the_same_answer() -> None:
    said = votes(NOT_SERVED, replace(NOT_SERVED, root=digest("blob")), NOT_SERVED)
    found = decide(said)
    assert found == Finding(UNAVAILABLE, b"", 0)
    assert EXACT.judge(said, found) == (AnswerVerdict.RIGHT,) * 3
    mixed = votes(NOT_SERVED, answer(), answer(), answer())
    assert decide(mixed) == RIGHT
    assert EXACT.judge(mixed, RIGHT)[0] is AnswerVerdict.DIFFERENT


def test_a_ruling_is_for_the_chain_only_where_a_claim_was_shown_and_recomputed() -> None:
    assert EXACT.rule(RIGHT, digest("right"), False) is Ruling.RIGHT
    assert EXACT.rule(RIGHT, digest("wrong"), False) is Ruling.WRONG
    assert EXACT.rule(RIGHT, b"", False) is Ruling.WRONG
    assert EXACT.rule(Finding(STOPPED, b"", 3), digest("right"), False) is Ruling.WRONG
    assert EXACT.rule(Finding(UNAVAILABLE, b"", 0), b"", False) is Ruling.WRONG
    assert EXACT.rule(None, digest("right"), False) is Ruling.UNDECIDED


def test_only_that_it_stops_rules_for_a_claim_that_the_job_stops() -> None:
    stopped = Finding(STOPPED, b"", 17)
    assert EXACT.rule(stopped, b"", True) is Ruling.RIGHT
    for found in (RIGHT, Finding(UNAVAILABLE, b"", 0)):
        assert EXACT.rule(found, b"", True) is Ruling.WRONG
    assert EXACT.rule(None, b"", True) is Ruling.UNDECIDED
    # And a stop that was hidden is against the chain.
    assert EXACT.rule(stopped, RIGHT.root, False) is Ruling.WRONG

"""The tier ``exact``: what answers commit to, and what they decide."""

from dataclasses import replace
from typing import Any

from domain.keys import PanelKey
from domain.proof.records import AnswerKind, Finding, Ruling, SeatAnswer
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.tier import AnswerVerdict, Quorum, Vote
from pol.rules.tiers.votes import is_unserved
from tests.support.chain_market import digest

SEED = digest("seed")
KEY = PanelKey(digest("order"), 1, 2, 0)
FINISHED, STOPPED, UNAVAILABLE, *_ = AnswerKind
RIGHT = Finding(FINISHED, digest("right"), 0)


def answer(root: str = "right", found: str = "work", place: int = 0) -> SeatAnswer:
    return SeatAnswer(place, FINISHED, digest(root), digest(root, found), 0)


def votes(*said: SeatAnswer | None, stage: int = 1, stake: int = 1) -> list[Vote]:
    return [Vote(stage, stake, one) for one in said]


NOT_SERVED = SeatAnswer(0, UNAVAILABLE, b"", b"", 0)


# --- answers -------------------------------------------------------------------------------------


def test_a_digest_is_of_the_seed_the_roots_inside_and_the_state_however_it_comes() -> None:
    roots = [digest(1), digest(2)]
    made = EXACT.digests([SEED], roots, [b"state"])
    assert made == EXACT.digests([SEED], iter(roots), [b"st", b"", b"ate"])
    others = [
        EXACT.digests([digest("other")], roots, [b"state"]),
        EXACT.digests([SEED], roots[:1], [b"state"]),
        EXACT.digests([SEED], roots[::-1], [b"state"]),
        EXACT.digests([SEED], roots, [b"State"]),
        EXACT.digests([SEED], (), [b"".join(roots), b"state"]),
    ]
    assert len({made, *others}) == 6
    assert EXACT.digests([SEED, digest("other")], roots, [b"st", b"ate"]) == (*made, *others[0])


def test_a_commitment_is_of_one_seat_of_one_stage_and_of_all_its_answers() -> None:
    given = (answer(), answer(place=1), SeatAnswer(2, STOPPED, b"", digest("work"), 7))
    made = [
        EXACT.commitment("chain", KEY, 1, "seat", SEED, given),
        EXACT.commitment("other", KEY, 1, "seat", SEED, given),
        EXACT.commitment("chain", replace(KEY, round=3), 1, "seat", SEED, given),
        EXACT.commitment("chain", replace(KEY, dispute=1), 1, "seat", SEED, given),
        EXACT.commitment("chain", KEY, 2, "seat", SEED, given),
        EXACT.commitment("chain", KEY, 1, "copier", SEED, given),
        EXACT.commitment("chain", KEY, 1, "seat", digest("salt"), given),
        EXACT.commitment("chain", KEY, 1, "seat", SEED, given[:2]),
        EXACT.commitment("chain", KEY, 1, "seat", SEED, (*given[:2], replace(given[2], step=8))),
        EXACT.commitment("chain", KEY, 1, "seat", SEED, (*given[:2], replace(given[2], earlier=(SEED,)))),
    ]
    assert len(set(made)) == len(made)


# --- rulings -------------------------------------------------------------------------------------


def quorum(**changes: Any) -> Quorum:
    of: dict[str, Any] = {
        "auditors": 3,
        "eligible": 9,
        "stake": 9,
        "is_last": False,
        "claim": digest("right"),
        "stop": None,
    }
    return Quorum(**(of | changes))


def decide(said: list[Vote], **changes: Any) -> Finding | None:
    return EXACT.decide(said, quorum(**changes))


def wanted(said: list[Vote], **changes: Any) -> int:
    return EXACT.count_wanted(said, quorum(**changes))


def test_two_thirds_of_enough_seats_decide_for_the_chain() -> None:
    assert decide(votes(answer(), answer(), answer())) == RIGHT
    assert decide(votes(answer(), answer(), answer("wrong"))) is None  # two are fewer than the auditors
    assert decide(votes(answer(), answer(), answer("wrong")), auditors=2) == RIGHT
    assert decide(votes(answer(), answer(), answer("wrong"), answer("wrong")), auditors=2) is None
    assert decide(votes(answer(), answer(), None)) is None
    assert decide(votes(answer(), answer(), None), eligible=2) == RIGHT
    assert decide(votes(answer(), None), auditors=2, eligible=1) == RIGHT
    assert decide(votes(None, None, None)) is None
    assert decide([], auditors=3, eligible=0) is None


def test_one_stage_never_decides_against_the_chain() -> None:
    """Three seats of a third of the stake used to void one round in 27 by themselves."""
    lie = Finding(FINISHED, digest("lie"), 0)
    said = votes(*[answer("lie")] * 3)
    assert decide(said) is None
    assert wanted(said) == 6
    honest = said + votes(*[answer()] * 6, stage=2)
    assert decide(honest) == RIGHT  # two thirds of all are enough for the chain
    confirmed = said + votes(*[answer("lie")] * 5, answer(), stage=2)
    assert decide(confirmed) == lie
    # Each stage has to have more than two thirds, not only both together.
    assert decide(said + votes(*[answer("lie")] * 4, *[answer()] * 2, stage=2)) is None
    assert decide(votes(answer(), answer("lie"), None) + votes(*[answer("lie")] * 6, stage=2)) is None


def test_it_stops_is_against_the_chain_where_the_chain_has_a_root() -> None:
    stopped = SeatAnswer(0, STOPPED, b"", digest("work"), 3)
    assert decide(votes(*[stopped] * 3)) is None
    assert decide(votes(*[stopped] * 3), claim=b"", stop=3) == Finding(STOPPED, b"", 3)
    # One that stops elsewhere is against it too: one stage does not decide that.
    assert decide(votes(*[stopped] * 3), claim=b"", stop=2) is None


def test_an_abstention_stays_in_the_count_and_brings_two_seats() -> None:
    """If it left the count, a winner that serves only its friends would be judged by them alone."""
    said = votes(answer(), answer(), NOT_SERVED)
    assert decide(said, auditors=2) is None
    assert wanted(said, auditors=2) == 2
    assert decide(said + votes(answer(), answer(), stage=2), auditors=2) == RIGHT
    assert decide(said + votes(answer(), answer("lie"), stage=2), auditors=2) is None
    assert wanted(votes(answer(), None, NOT_SERVED)) == 3
    assert wanted(votes(answer(), answer("lie"), NOT_SERVED)) == 8
    assert wanted(votes(NOT_SERVED, NOT_SERVED, NOT_SERVED)) == 6


def test_unavailable_is_decided_in_the_last_stage_alone() -> None:
    nothing = votes(*[NOT_SERVED] * 9)
    assert decide(nothing) is None
    assert decide(nothing + votes(*[NOT_SERVED] * 9, stage=2), stake=18) is None
    assert decide(nothing, is_last=True) == Finding(UNAVAILABLE, b"", 0)
    assert decide(votes(*[NOT_SERVED] * 4, *[answer()] * 5), is_last=True) == RIGHT


def test_two_stages_in_a_row_without_an_answer_end_the_search() -> None:
    first = votes(NOT_SERVED, NOT_SERVED, None)
    assert not is_unserved(first)
    assert is_unserved(first + votes(NOT_SERVED, stage=2))
    assert not is_unserved(first + votes(NOT_SERVED, answer(), stage=2))
    assert not is_unserved(first + votes(None, None, stage=2))
    assert not is_unserved(votes(answer(), NOT_SERVED) + votes(NOT_SERVED, stage=2))


def test_the_next_stage_replaces_the_silent_and_outnumbers_those_who_differ() -> None:
    assert wanted(votes(answer(), None, None)) == 2
    assert wanted(votes(answer(), answer(), answer("lie"))) == 6
    assert wanted(votes(answer(), answer(), answer("lie")) + votes(*[answer()] * 3, None, None, None, stage=2)) == 18
    assert wanted(votes(answer(), answer())) == 1


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
    assert wanted(said) == 6
    said += votes(*[later(found="later work")] * 6, stage=2)
    assert decide(said) == RIGHT
    assert judge(said) == "RRXRRRRRR"
    assert judge(votes(answer(), answer(), answer(), answer(found="nothing"))) == "RRRX"


def later(found: str, earlier: str = "work") -> SeatAnswer:
    """Return an answer of the second stage, which names the digest of the first stage too."""
    return replace(answer(found=found), earlier=(digest("right", earlier),))


def judge(said: list[Vote], *, is_last: bool = False) -> str:
    """Return a letter for each seat: whether it is Right, refuted (X), or Unknown."""
    letters = {AnswerVerdict.RIGHT: "R", AnswerVerdict.REFUTED: "X", AnswerVerdict.UNKNOWN: "U"}
    return "".join(letters[verdict] for verdict in EXACT.judge(said, RIGHT, is_last))


def test_one_lazy_seat_costs_no_other_seat_its_pay() -> None:
    """Two digests against one used to leave all three unpaid, and the lazy seat its answer fee."""
    for lazy in range(3):
        first = [answer(found="nothing" if seat == lazy else "work") for seat in range(3)]
        said = votes(*first) + votes(*[later("second")] * 6, stage=2)
        assert decide(said) == RIGHT
        assert judge(said) == "RRR"[:lazy] + "X" + "RR"[lazy:] + "RRRRRR"


def test_two_lazy_seats_that_agree_are_outvoted_by_later_seats() -> None:
    said = votes(answer(), answer(found="agreed"), answer(found="agreed")) + votes(*[later("second")] * 6, stage=2)
    assert decide(said) == RIGHT
    assert judge(said) == "RXXRRRRRR"


def test_a_later_seat_that_only_repeats_what_was_shown_counts_for_nothing() -> None:
    """It knows the digests of the first stage from the chain, but not the one of its own stage."""
    copies = [later("guess", "agreed")] * 2
    said = votes(answer(), answer(found="agreed"), answer(found="agreed")) + votes(
        *[later("second")] * 5, *copies, stage=2
    )
    assert judge(said) == "RXXRRRRRXX"


def test_a_seat_that_lies_about_an_earlier_stage_is_refuted() -> None:
    said = votes(answer(), answer(), answer()) + votes(*[later("second")] * 3, later("second", "lie"), stage=2)
    assert judge(said) == "RRRRRRX"


def test_no_place_is_decided_before_all_digests_are_clear() -> None:
    """Otherwise the honest seats of a stage would not be paid."""
    said = votes(answer(), answer(), answer(found="nothing"))
    said += votes(*[later("second")] * 4, later("nothing"), later("other"), stage=2)
    assert judge(said) == "U" * 9
    assert decide(said) is None
    assert wanted(said) == 18
    third = replace(answer(found="third"), earlier=(digest("right", "work"), digest("right", "second")))
    said += votes(*[third] * 9, stage=3)
    assert decide(said) == RIGHT
    assert judge(said) == "RRX" + "RRRRXX" + "R" * 9


def test_the_last_stage_judges_digests_by_stake() -> None:
    """Two thirds of the seats may hold less than half of the stake. No other seat is left that could tell."""
    said = votes(answer(), answer(), answer(found="nothing"))
    assert decide(said, is_last=True, stake=3) == RIGHT
    assert judge(said, is_last=True) == "RRX"
    rich = [*votes(answer(), stake=3), *votes(answer(found="agreed"), answer(found="agreed"))]
    assert decide(rich, is_last=True, stake=5) == RIGHT
    assert judge(rich, is_last=True) == "RXX"
    even = votes(answer(), answer(found="nothing"))
    assert decide(even, is_last=True, stake=2) is None


def test_later_stages_have_other_digests_and_count_together() -> None:
    said = votes(answer(), answer(), None) + votes(later("work of stage 2"), stage=2)
    assert wanted(said) == 1
    assert decide(said) == RIGHT
    assert EXACT.judge(said, RIGHT, False) == (
        AnswerVerdict.RIGHT,
        AnswerVerdict.RIGHT,
        AnswerVerdict.SILENT,
        AnswerVerdict.RIGHT,
    )


def test_an_abstention_is_never_refuted() -> None:
    said = votes(NOT_SERVED, replace(NOT_SERVED, root=digest("blob")), NOT_SERVED)
    nothing = Finding(UNAVAILABLE, b"", 0)
    assert decide(said, is_last=True, stake=3) == nothing
    assert EXACT.judge(said, nothing, True) == (AnswerVerdict.ABSTAINED_RIGHTLY,) * 3
    mixed = votes(NOT_SERVED, answer(), answer(), answer())
    assert EXACT.judge(mixed, RIGHT, False)[0] is AnswerVerdict.ABSTAINED


def test_work_on_a_place_that_most_did_not_get_is_work_where_another_confirms_it() -> None:
    for decided in (Finding(UNAVAILABLE, b"", 0), None):
        assert EXACT.judge(votes(answer(), answer(), NOT_SERVED), decided, False)[:2] == (AnswerVerdict.RIGHT,) * 2
        assert EXACT.judge(votes(answer(), NOT_SERVED, None), decided, False)[0] is AnswerVerdict.UNCONFIRMED
        assert EXACT.judge(votes(answer(), answer("lie")), decided, False) == (AnswerVerdict.UNCONFIRMED,) * 2


def test_a_ruling_is_for_the_chain_only_where_a_claim_was_shown_and_recomputed() -> None:
    assert EXACT.rule(RIGHT, digest("right"), None) is Ruling.RIGHT
    assert EXACT.rule(RIGHT, digest("wrong"), None) is Ruling.WRONG
    assert EXACT.rule(RIGHT, b"", None) is Ruling.WRONG
    assert EXACT.rule(Finding(STOPPED, b"", 3), digest("right"), None) is Ruling.WRONG
    assert EXACT.rule(Finding(UNAVAILABLE, b"", 0), b"", None) is Ruling.WRONG
    assert EXACT.rule(None, digest("right"), None) is Ruling.UNDECIDED


def test_only_that_it_stops_rules_for_a_claim_that_the_job_stops() -> None:
    stopped = Finding(STOPPED, b"", 17)
    assert EXACT.rule(stopped, b"", 17) is Ruling.RIGHT
    for found in (RIGHT, Finding(UNAVAILABLE, b"", 0), Finding(STOPPED, b"", 16), Finding(STOPPED, b"", 18)):
        assert EXACT.rule(found, b"", 17) is Ruling.WRONG
    assert EXACT.rule(None, b"", 17) is Ruling.UNDECIDED
    # An update has no steps.
    assert EXACT.rule(Finding(STOPPED, b"", 0), b"", 0) is Ruling.RIGHT
    # And a stop that was hidden is against the chain.
    assert EXACT.rule(stopped, RIGHT.root, None) is Ruling.WRONG

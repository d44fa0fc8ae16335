"""What people read of panels, from real ones on their way through a market."""

from dataclasses import replace

import pytest

from consumer.errors import ConsumerError
from consumer.panels import describe_panel, describe_stop, panel_rows
from consumer.result import handed_over
from domain.measures import duration
from domain.params import local_params
from domain.proof.queries import SeatsRequest
from domain.proof.records import AnswerKind
from tests.support.chain_market import Market, slow_auditors, submit


def test_a_panel_says_what_it_waits_for() -> None:
    market = Market(local_params().replace(audit_room_bps=1, window_max=2_000), validators=6)
    slow_auditors(market)
    first, second = (market.run(submit(deadline=100_000)) for _ in range(2))
    market.train_round(first)
    assert describe_panel(market.panel(first, 0), market.chain.clock) == [
        "the panel of round 0 of leg 1: the auditors of stage 1 are drawn in the next blocks"
    ]
    market.train_round(second)
    assert describe_panel(market.panel(second, 0), market.chain.clock) == [
        "the panel of round 0 of leg 1: it begins when auditors are free"
    ]
    market.wait_stage(first)
    panel, now = market.panel(first, 0), market.chain.clock
    left = panel.commits_end - now
    assert describe_panel(panel, now) == [
        "the panel of round 0 of leg 1: 0 of 2 auditors of stage 1 have committed (for another"
        f" {duration(left)} at most)"
    ]
    market.answer_all(first, 0)
    assert describe_panel(market.panel(first, 0), market.chain.clock) == []


def test_a_panel_says_that_others_vote_on_a_slash() -> None:
    market = Market(local_params().replace(auditors=3), validators=14)
    order_id = market.run(submit(deposit=900_000, rematch=False))
    market.train_round(order_id)

    def say(stage: int) -> None:
        market.wait_stage(order_id, 0, stage)
        answers = market.answers(order_id)
        wrong = (replace(answers[0], root=bytes(32)), *answers[1:])
        market.say(order_id, dict.fromkeys(market.seated(order_id, 0, stage), wrong))

    say(1)
    say(2)
    assert describe_panel(market.panel(order_id, 0), market.chain.clock)[-1] == (
        "round 0 of leg 1: this ruling can be appealed for another 60 s (assay order appeal); then the round is void"
    )
    market.let_stand(order_id)
    lines = describe_panel(market.panel(order_id, 0), market.chain.clock)
    assert lines[-2:] == [
        "round 0 of leg 1: two stages found it wrong; all other validators vote on whether its validator loses"
        " 0.16 ASSAY of its stake, and the order does not wait for that",
        "the panel of round 0 of leg 1: the auditors of stage 3 are drawn in the next blocks",
    ]
    say(3)
    lines = describe_panel(market.panel(order_id, 0), market.chain.clock)
    assert lines[0] == "round 0 of leg 1: aggregation is wrong"
    assert lines[-1] == "round 0 of leg 1: its validator lost 0.16 ASSAY of its stake"


def test_a_panel_says_what_it_found_wrong_and_its_rows_say_who_has_spoken() -> None:
    market = Market(validators=6)
    order_id = market.run(submit(rematch=False))
    market.train_round(order_id)
    market.wait_stage(order_id)
    seats = list(market.seats(order_id, 0))
    rows = panel_rows(market.all_of(order_id), seats)
    assert [row[:5] for row in rows[:2]] == [
        (1, 0, 0, "aggregation", "open"),
        (1, 0, 1, f"update of slot {market.panel(order_id, 0).places[1].place.slot}", "open"),
    ]
    assert [row[5:] for row in rows] == [(1, 2, 0)] * 5
    market.fault_round(order_id)
    found = market.all_of(order_id)
    lines = [line for panel in found.panels for line in describe_panel(panel, 0)]
    assert lines[0] == "round 0 of leg 1: aggregation is wrong"
    assert len(lines) == 5
    rows = panel_rows(found, list(market.chain.ask(seats_of(order_id)).seats))
    assert [row[4:] for row in rows] == [("wrong", 2, 5, 5)] * 5


def test_where_a_job_stops_is_said_in_a_sentence_and_instead_of_a_result() -> None:
    market = Market(local_params().replace(round_window=40), validators=6)
    order_id = market.run()
    market.train_round(order_id)
    market.answer_all(order_id, 0)
    assert describe_stop(market.all_of(order_id)) == ""
    market.stop_round(order_id, None, 1)
    said = describe_stop(market.all_of(order_id))
    assert said == (
        "its validator reports that the job stops in round 1, because the segment 1 of slot 1 has no result; auditors "
        "recompute that"
    )
    market.wait_stage(order_id, 1)
    rows = panel_rows(market.all_of(order_id), list(market.seats(order_id, 1)))
    assert "segment 1 of slot 1, where the job stops" in [row[3] for row in rows]
    market.answer_all(order_id, 1)
    market.chain.pass_until(market.round(order_id, 1).window_ends + 1)
    found = market.all_of(order_id)
    assert "stops in round 1, because the segment 1 of slot 1 has no result (step 6)" in describe_stop(found)
    for asked in (None, 1):
        with pytest.raises(ConsumerError, match=r"stops in round 1.*--round 0"):
            handed_over(found, asked)
    assert handed_over(found, 0)[1].round == 0


def test_a_stop_that_was_none_is_said_to_be_wrong() -> None:
    market = Market(validators=6)
    order_id = market.run(submit(rematch=False))
    market.stop_round(order_id, 0, None)
    market.wait_stage(order_id)
    with pytest.raises(ConsumerError, match="no earlier round handed its state over"):
        handed_over(market.all_of(order_id))
    market.say_all(
        order_id,
        lambda: tuple(
            replace(answer, kind=AnswerKind.FINISHED, root=bytes(32), step=0)
            if answer.kind is AnswerKind.STOPPED
            else answer
            for answer in market.answers(order_id)
        ),
    )
    found = market.all_of(order_id)
    assert describe_stop(found) == ""
    assert describe_panel(found.panels[0], 0) == [
        "round 0 of leg 1: segment 0 of slot 0 does not stop the job, although the validator claims so",
        "round 0 of leg 1: its validator lost 0.16 ASSAY of its stake",
    ]


def seats_of(order_id: bytes) -> SeatsRequest:
    return SeatsRequest(order_id, 1, 0)

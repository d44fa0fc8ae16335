"""What people read of panels, from real ones on their way through a market."""

from dataclasses import replace

from consumer.panels import panel_rows, tell_panel
from domain.params import local_params
from domain.queries import SeatsRequest
from tests.support.chain_market import Market, submit


def test_a_panel_says_what_it_waits_for() -> None:
    market = Market(replace(local_params(), audit_room_bps=1, round_window=200), validators=6)
    first, second = market.run(), market.run()
    market.train_round(first)
    assert tell_panel(market.panel(first, 0)) == [
        "round 0 of attempt 1 waits for the seed of stage 1 of its panel"
    ]
    market.train_round(second)
    assert tell_panel(market.panel(second, 0)) == [
        "round 0 of attempt 1 waits until auditors have room for its panel"
    ]
    market.wait_stage(first)
    (line,) = tell_panel(market.panel(first, 0))
    assert "stage 1 of its panel, 0 of 2 have committed" in line
    market.answer_all(first, 0)
    assert tell_panel(market.panel(first, 0)) == []


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
    assert [row[5:] for row in rows] == [(1, 2, 0)] * 4
    market.fault_round(order_id)
    found = market.all_of(order_id)
    lines = [line for panel in found.panels for line in tell_panel(panel)]
    assert lines[0] == "round 0 of attempt 1: aggregation is wrong"
    assert len(lines) == 4
    rows = panel_rows(found, list(market.chain.ask(seats_of(order_id)).seats))
    assert [row[4:] for row in rows] == [("wrong", 1, 2, 2)] * 4


def seats_of(order_id: bytes) -> SeatsRequest:
    return SeatsRequest(order_id, 1, 0)

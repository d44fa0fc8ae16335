"""Panels of rounds behind a round that turns out to be void.

Their seats used to work for nothing, or at most for what other seats lost.
"""

from domain.params import local_params
from tests.support.chain_market import Market, make_terms, submit


def two_rounds(**changes: int) -> tuple[Market, bytes]:
    """Return an order with two closed rounds and the seats of both panels drawn."""
    params = local_params().replace(round_window=200, progress_base=300, job_bond_bps=10_000, **changes)
    market = Market(params, validators=14)
    order_id = market.run(submit(terms=make_terms(rounds=3), deposit=600_000, rematch=False))
    market.train_round(order_id)
    market.train_round(order_id)
    market.wait_stage(order_id, 0)
    market.wait_stage(order_id, 1)
    return market, order_id


def test_seats_that_recomputed_a_dropped_round_are_paid_by_who_is_at_fault() -> None:
    market, order_id = two_rounds()
    seats = market.seated(order_id, 1)
    before = {name: market.chain.worth(name) for name in seats}
    right = market.answers(order_id, 1)
    # Both have answered when the round before becomes void.
    market.say(order_id, dict.fromkeys(seats, right), 1)
    market.fault_round(order_id, 0)
    assert market.round_of(order_id, 1, 1).void
    earned = {name: market.chain.worth(name) - worth for name, worth in before.items()}
    assert min(earned.values()) >= 46_000


def test_a_round_that_was_not_served_is_voted_on_before_others_are_drawn() -> None:
    """A winner that serves nothing would else make every validator vote on each of sixteen rounds."""
    market, order_id = two_rounds()
    nothing = market.unavailable(order_id)
    for stage in (1, 2):
        market.wait_stage(order_id, 0, stage)
        market.say(order_id, dict.fromkeys(market.seated(order_id, 0, stage), nothing), leaves=())
    assert market.panel(order_id, 0).last_next
    right = market.answers(order_id, 1)
    one, *_ = market.seated(order_id, 1)
    market.say(order_id, {one: right}, 1)
    market.chain.pass_until(market.panel(order_id, 1).reveals_end)
    market.chain.pass_time(10)
    stages = [event.get("round") for event in market.chain.seen("panel.stage")]
    assert stages.count("1") == 1
    market.say(order_id, dict.fromkeys(market.seated(order_id, 0, 3), market.answers(order_id)))
    market.wait_stage(order_id, 1, 2)

"""What an order waits for at each step of its life, on a real market."""

from consumer.history import history_of, losses_of
from consumer.waiting import Waiting, waiting
from consumer.watch import summarise
from consumer.words import Asker, explain
from domain.market.records import OrderState
from domain.params import local_params
from tests.support.chain_market import Market, bid, submit


def asked(market: Market, order_id: bytes) -> Waiting:
    found = waiting(market.all_of(order_id), market.chain.clock, asker=Asker.SHELL)
    assert found is not None
    return found


def test_an_order_says_what_it_waits_for_until_it_is_closed() -> None:
    market = Market(local_params().replace(round_window=200), validators=6, bidders=())
    order_id = market.submit()
    market.chain.pass_time(40)
    found, order = asked(market, order_id), market.order(order_id)
    assert (found.what, found.since, found.until) == ("a bid", order.opened_at, order.expires_at)
    assert f"for {market.chain.clock - order.opened_at} s, for another " in str(found)

    market.chain.ok(bid("v0"))
    market.auction()
    assert market.order(order_id).state is OrderState.MATCHED
    found, leg = asked(market, order_id), market.leg(order_id)
    assert (found.what, found.until) == ("its validator to accept it", leg.accept_deadline)
    assert found.helps == (f"keep assay order watch {order_id.hex()[:12]} running, which delivers the files")

    market.accept(order_id)
    found, rounds = asked(market, order_id), market.order(order_id).terms.rounds
    assert (found.what, found.until) == ("round 0 to close", market.leg(order_id).progress_deadline)
    assert found.detail == (
        f"0 of {market.leg(order_id).slots} slots have committed their shares;"
        f" 0 of {rounds} rounds are closed, 0 verified"
    )
    market.commit(order_id, *market.traces_of_round(order_id)[:1])
    assert asked(market, order_id).detail.startswith("1 of ")

    for _ in range(rounds):
        market.train_round(order_id)
    assert market.order(order_id).state is OrderState.PROVEN
    found = asked(market, order_id)
    assert found.what == "the panel of round 0"
    panel = market.wait_stage(order_id)
    found = asked(market, order_id)
    assert (found.until, found.detail) == (
        panel.commits_end,
        "0 of 2 auditors of stage 1 have committed",
    )
    market.answer_all(order_id, 0)
    found = asked(market, order_id)
    assert (found.what, found.until) == (
        "the window of round 0",
        market.round(order_id, 0).window_ends,
    )
    for number in range(1, rounds):
        market.answer_all(order_id, number)
    market.chain.pass_until(market.round(order_id, rounds - 1).window_ends + 1)
    found = asked(market, order_id)
    assert (found.what, found.until) == ("its settlement", market.leg(order_id).settles_at)
    assert "assay order result " in found.helps

    market.pass_handover(order_id)
    answer = market.all_of(order_id)
    assert waiting(answer, market.chain.clock) is None
    assert summarise(answer).settled


def test_losses_of_closed_rounds_are_arrays() -> None:
    market = Market(validators=6)
    order_id = market.run(submit())
    assert losses_of(market.all_of(order_id)).shape == (0, 2)
    assert summarise(market.all_of(order_id)).loss is None
    market.train_round(order_id)
    market.train_round(order_id)
    answer = market.all_of(order_id)
    losses, history = losses_of(answer), history_of(answer)
    assert losses.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    steps = answer.order.terms.round_steps
    assert history["step"].tolist() == [steps, steps, 2 * steps, 2 * steps]
    assert history["slot"].tolist() == [0, 1, 0, 1]
    assert history["loss"].tolist() == losses.flatten().tolist()
    assert summarise(answer).loss == losses[-1].mean()


def test_a_remedy_is_what_its_reader_can_type() -> None:
    unmatched = (("price", 4), ("capacity", 1))
    shell = explain(unmatched, 9 * 10**11, asker=Asker.SHELL)
    assert shell == (
        "no bid fits now: 4 bids ask more, 1 bid has too little capacity left",
        "--price-limit 900000ASSAY would match a bid",
    )
    assert explain(unmatched, 9 * 10**11)[1] == "price_limit=900000000000 would match a bid"

"""A challenge on the page of an order: from its claim to the ruling, with the end of each coin."""

from dataclasses import replace

import pytest

from console.server import Console
from domain.ledger.messages import MsgDepositBond
from tests.support.chain_market import BOND, CONSUMER, make_terms, submit
from tests.support.told_market import ToldMarket
from tests.unit.chain.state_machine.disputes.test_challenges import (
    RIGHT_ROOT,
    commit,
    dispute,
    missed,
    opening,
    params,
    verified_by_lot,
)
from tests.unit.console.conftest import ask


@pytest.mark.parametrize("is_right", [True, False])
def test_a_challenge_is_told_from_its_claim_to_the_ruling(is_right: bool) -> None:
    market = ToldMarket(params=params())
    order_id = market.run(submit(terms=make_terms(round_steps=64, slots=1, rounds=1), deposit=2_000_000))
    market.chain.ok(MsgDepositBond(CONSUMER, BOND))
    market.train_round(order_id)
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    market.chain.ok(commit(market, order_id, place))
    market.chain.ok(opening(order_id, place))
    market.about = 1
    market.say_all(
        order_id,
        lambda: tuple(replace(answer, root=RIGHT_ROOT) if is_right else answer for answer in market.answers(order_id)),
    )
    market.chain.pass_time(5)
    on_chain = dispute(market, order_id)
    with Console(0, probe=False) as console:
        market.tell(console.known)
        console.pages.ask = market.chain.ask
        page = ask(console, f"/api/orders/{order_id.hex()}").json()
        shown = ask(console, f"/orders/{order_id.hex()}").text
    (found,) = page["challenges"]
    texts = [step["text"] for step in found["steps"]]
    assert "committed to a challenge" in texts[0]
    assert f"segment {place.segment} of slot 0, and claims the result {RIGHT_ROOT.hex()[:12]}" in texts[1]
    assert sum(text.startswith("Stage ") for text in texts) == max(seat["stage"] for seat in found["seats"])
    assert ("wrong" in texts[-2], "was right" in texts[-1]) == (is_right, is_right)
    coins = found["coins"]
    of_bond = sum(coin["amount"] for coin in coins if coin["kind"] != "finder_reward")
    assert of_bond == on_chain.bond
    assert sum(coin["amount"] for coin in coins if coin["kind"] == "finder_reward") == on_chain.reward
    assert sum(coin["amount"] for coin in coins if coin["kind"] == "burn") == on_chain.burnt
    assert "from the claim to the ruling" in shown
    assert all(text.split(",")[0] in shown for text in texts)

"""What the network's and members' pages say is what the chain's own queries and tables have."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from chain.client.client import ChainClient
from chain.client.sender import TxSender
from chain.state_machine.ledger.tables import POTS, SUPPLY
from console.flows import deposit_of
from console.rows import PageQuery
from console.server import Console
from console.story import build_story
from domain.distribution.moves import REWARDS_POT
from domain.genesis import POWER_REDUCTION
from domain.ledger.messages import MsgDepositBond
from domain.ledger.moves import (
    ACCOUNTS_POT,
    BONDS_POT,
    BURNT_POT,
    COMMUNITY_POT,
    ESCROWS_POT,
)
from domain.market.messages import MsgCancelOrder
from domain.market.queries import BidsRequest, OrdersRequest
from domain.market.records import OrderState
from domain.proof.moves import AUDITS_POT
from domain.proof.queries import PanelDutiesRequest
from domain.registry.queries import ProvidersRequest, ValidatorsRequest
from domain.staking.moves import STAKES_POT
from tests.support.chain_harness import cons_address
from tests.support.chain_market import PRICE, submit
from tests.support.solo_node import ALICE, STRANGER, making_blocks, running
from tests.support.told_market import ToldMarket
from tests.unit.console.conftest import Told
from tests.unit.console.conftest import ask as ask_page


def ask(told: Told, request: Any) -> Any:
    return told.market.chain.ask(request)


def test_validators_are_as_the_chain_has_them(told: Told) -> None:
    shown = {row["operator"]: row for row in told.json("/network")["validators"]}
    on_chain = ask(told, ValidatorsRequest()).validators
    assert shown.keys() == {v.operator for v in on_chain}
    whole = sum(v.stake for v in on_chain)
    blocks = told.console.index.blocks(120)
    for v in on_chain:
        row = shown[v.operator]
        for name in ("moniker", "stake", "audit_speed", "endpoint", "orders_settled", "jailed"):
            assert row[name] == getattr(v, name), name
        assert row["power"] == v.stake // POWER_REDUCTION
        assert row["part"] == v.stake / whole
        assert row["proposed"] == sum(b.proposer == cons_address(v.operator) for b in blocks) > 0
        assert row["alive"] is (v.operator != "v3")


def test_a_validator_is_shown_in_the_jail_that_it_is_in(told: Told) -> None:
    known = told.console.known
    listed = known.snapshot.validators
    jailed = tuple(replace(v, jailed=v.operator == "v1") for v in listed)
    known.show(validators=jailed, consensus_jailed=("v2",))
    try:
        shown = {row["operator"]: row for row in told.json("/network")["validators"]}
        assert [(name, row["jailed"], row["consensus_jailed"]) for name, row in sorted(shown.items())] == [
            ("v0", False, False),
            ("v1", True, False),
            ("v2", False, True),
            ("v3", False, False),
        ]
        for page in ("/", "/members", "/members/v2"):
            assert "jailed by the consensus" in told.get(page).text
        assert "jailed by the consensus" not in told.get("/members/v1").text
        assert "jailed" in told.get("/members/v1").text
    finally:
        known.show(validators=listed, consensus_jailed=())


def test_the_coins_are_all_coins_by_the_pot_that_they_are_in(told: Told) -> None:
    supply = told.json("/network")["supply"]
    store = told.market.chain.overlay()
    for pot in (STAKES_POT, ESCROWS_POT, BONDS_POT, AUDITS_POT, REWARDS_POT, COMMUNITY_POT, BURNT_POT):
        assert int(supply[pot.name]) == POTS.get(store, pot.name), pot
    assert int(supply["accounts"]) == POTS.get(store, ACCOUNTS_POT.name)
    assert int(supply["all"]) == SUPPLY.get(store)


def test_orders_bids_and_providers_are_counted_as_the_chain_does(told: Told) -> None:
    page, book = told.json("/network"), told.json("/book")
    orders = ask(told, OrdersRequest("", "", 0, 1_000, b"")).orders
    for state in OrderState:
        assert page["orders"][state.name.lower()] == sum(o.state is state for o in orders)
    bids = ask(told, BidsRequest("", 1_000, b"")).bids
    assert page["bids"] == len(bids)
    assert [(row["id"], int(row["price"]), int(row["free"])) for row in book["bids"]] == [
        (bid.id.hex(), bid.offer.price, bid.free) for bid in sorted(bids, key=lambda bid: (bid.offer.price, bid.id))
    ]
    assert int(book["depth"][-1]["free"]) == int(book["free"]) == sum(bid.free for bid in bids)
    providers = ask(told, ProvidersRequest("", 1_000, "")).providers
    assert page["providers"] == sum(p.admitted for p in providers)


def test_duties_are_those_that_the_chain_waits_for(told: Told) -> None:
    """Of each validator: rounds to close, seats to answer from, with the ends that the chain will act at."""
    for validator in ask(told, ValidatorsRequest()).validators:
        duties = told.json(f"/members/{validator.operator}")["duties"]
        seats = ask(told, PanelDutiesRequest(validator.operator)).duties
        panels = [duty for duty in duties if "recompute" in duty["what"] or "show" in duty["what"]]
        assert sorted(duty["order"] for duty in panels) == sorted(d.order_id.hex() for d in seats)
        assert {duty["until"] for duty in panels} <= {
            end for duty in seats for end in (duty.commits_end, duty.reveals_end)
        }
    winner = told.market.leg(told.running)
    closing = [d for d in told.json(f"/members/{winner.validator}")["duties"] if "close" in d["what"]]
    assert (f"close round {winner.round}", winner.progress_deadline) in {
        (duty["what"], duty["until"]) for duty in closing
    }


def test_a_consumer_sees_what_orders_took_and_hold(told: Told) -> None:
    order_ids = (told.settled, told.running, told.waiting)
    stories = [build_story(told.console.index.events_of(order_id)) for order_id in order_ids]
    escrows = [deposit_of(story) for story in stories if story is not None]
    back = sum(flow.amount for each in escrows for flow in each.flows if flow.kind == "refund")
    page = told.json("/members/carol")
    assert page["locked"] == sum(each.held + each.withheld for each in escrows)
    assert page["paid"] + page["locked"] + back == sum(each.total for each in escrows)
    text = told.get("/members/carol").text
    assert "Paid for orders" in text
    assert "Earned" not in text
    assert "Earned" in told.get("/members/v0").text


def test_closed_orders_are_counted_and_filtered_by_their_reason(told: Told) -> None:
    page = told.json("/orders")
    assert page["counts"]["closed"] == sum(page["reasons"].values()) == 1
    assert page["reasons"] == {"settled": 1}
    for name in ("settled", "expired", "cancelled", "closed", "open"):
        found = told.json(f"/orders?state={name}")
        expected = {**page["counts"], **page["reasons"]}.get(name, 0)
        assert found["count"] == expected
        assert {row["status"] for row in found["orders"]} <= {name, "settled"}
    assert ">settled</span>" in told.get("/orders").text


def test_an_order_says_why_it_closed_where_its_state_stands() -> None:
    market = ToldMarket()
    gone = market.submit(submit(price_limit=PRICE // 2))
    market.chain.ok(MsgCancelOrder(market.order(gone).consumer, gone))
    late = market.submit(submit(price_limit=PRICE // 2, time_to_live=4))
    for _ in range(4):
        market.chain.block(seconds=2)
    with Console(0, probe=False) as console:
        market.tell(console.known)
        rows = {row["id"]: row for row in console.pages.orders(PageQuery({}))["orders"]}
        assert rows[gone.hex()]["status"] == "cancelled"
        assert rows[late.hex()]["status"] == "expired"
        page = console.pages.orders(PageQuery({"state": "expired"}))
        assert [row["id"] for row in page["orders"]] == [late.hex()]
        assert page["reasons"] == {"cancelled": 1, "expired": 1}


def test_providers_and_consumers_have_duties_too() -> None:
    market = ToldMarket()
    order_id = market.submit()
    with Console(0, probe=False) as console:
        market.tell(console.known)

        def duties(address: str) -> list[tuple[str, int]]:
            market.tell(console.known)
            found = console.pages.member(PageQuery({}), address)["duties"]
            return [(duty["what"], duty["until"]) for duty in found]

        deadline = market.leg(order_id).accept_deadline
        assert duties("carol") == [("deliver the job's files", deadline)]
        assert duties("v0") == [("accept or decline", deadline)]
        market.accept(order_id)
        assert duties("v0p0") == []
        market.commit(order_id, market.trace(order_id, 0, provider="v0p0"))
        progress = market.leg(order_id).progress_deadline
        assert duties("v0p0") == [("show the drawn segments of slot 0 in round 0", progress)]
        market.commit(order_id, market.trace(order_id, 1, provider="v0p1"))
        market.wait_drawn(order_id)
        market.chain.ok(*market.close_messages(order_id))
        assert duties("v0p0") == []


def test_a_provider_shows_what_it_has_in_hand_and_when_it_was_last_seen() -> None:
    market = ToldMarket()
    order_id = market.run()
    with Console(0, probe=False) as console:
        market.commit(order_id, market.trace(order_id, 0, provider="v0p0"))
        committed = market.chain.height
        market.chain.block()
        market.tell(console.known)
        page = console.pages.member(PageQuery({}), "v0p0")
        assert [(w["round"], w["slot"], w["in_hand"]) for w in page["work"]] == [(0, 0, True)]
        assert (page["seen_height"], page["seen_by"]) == (committed, "share.committed")
        text = ask_page(console, "/members/v0p0").text
        assert "Current shares" in text
        assert '<td class="num">0</td><td class="num"><a ' in text
        assert "A provider committed to its share" in text
        idle = ask_page(console, "/members/v0p1").text
        assert "The chain has no share of this provider" in idle
        market.commit(order_id, market.trace(order_id, 1, provider="v0p1"))
        market.wait_drawn(order_id)
        market.chain.ok(*market.close_messages(order_id))
        market.tell(console.known)
        page = console.pages.member(PageQuery({}), "v0p0")
        assert [(w["round"], w["in_hand"]) for w in page["work"]] == [(0, False)]
        row = next(p for p in console.pages.members(PageQuery({}))["providers"] if p["address"] == "v0p0")
        assert row["seen_height"] == committed


def test_an_account_has_its_balance_and_its_bond(tmp_path: Path) -> None:
    with running(tmp_path / "one") as node, ChainClient(node.address) as client:
        with making_blocks(node.engine):
            TxSender(client, ALICE).send(MsgDepositBond(ALICE.address, 5_000_000))
        with Console(0, probe=False) as console:
            console.follow(node.address)
            assert console.known.wait_until(lambda s: s.next_event > 1 and bool(s.params), 20.0)
            found = console.pages.member(PageQuery({}), ALICE.address)["account"]
            on_chain = client.account(ALICE.address)
            assert found["balance"] == on_chain.balance
            assert found["bond"] == found["bond_free"] == on_chain.bond.free == 5_000_000
            text = ask_page(console, f"/members/{ALICE.address}").text
            assert "<dt>Balance</dt>" in text
            assert "Coins were deposited in a bond account" in text
            assert ask_page(console, f"/members/{STRANGER.address}").status_code == 404

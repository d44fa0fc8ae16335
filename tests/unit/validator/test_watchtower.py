"""A watchtower on the chain harness: which places it recomputes, and what becomes of what it finds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from chain.client.client import ChainClient
from chain.client.errors import TxRefused
from chain.client.sender import TxSender
from domain.disputes.messages import MsgOpenChallenge
from domain.disputes.records import DisputeState
from domain.errors import INSUFFICIENT_BOND
from domain.market.records import ChallengeTerms
from domain.messages import Message
from domain.node.queries import ParamsRequest, StatusRequest
from domain.params import read_params
from domain.proof.queries import OrderResponse
from domain.proof.records import AnswerKind, AuditPlace, Finding, Round
from host.metrics import Meters
from link.errors import ClusterError, ClusterErrorKind
from pol.rules.panels import place_work
from tests.support.chain_harness import CHAIN_ID
from tests.support.chain_market import CONSUMER, Market, digest
from tests.support.scraped import values
from tests.unit.chain.attacks.test_a_captured_stage_is_appealed import BOND, capture, make_market
from tests.unit.chain.attacks.test_who_may_challenge_and_how_long import waiting_round
from tests.unit.chain.state_machine.disputes.test_challenges import closed_round, found_wrong, missed, verified_by_lot
from validator.watch import metrics
from validator.watch.choose import Watch, choose_target, largest_reward
from validator.watch.places import get_extents, list_places
from validator.watch.recompute import PlaceCheck
from validator.watch.store import TowerStore, WatchtowerError, locked_tower
from validator.watch.tower import LOOK_SECONDS, MARGIN_SECONDS, RETRY_SECONDS, TowerBudget, Watchtower

RIGHT_ROOT = digest("what it should be")
UNSERVED = Finding(AnswerKind.UNAVAILABLE, b"", 0)


class Node:
    """A client and a sender of the chain harness."""

    def __init__(self, market: Market, address: str) -> None:
        self.market, self.address = market, address
        self.crash_after = 0

    def query(self, request: Any) -> Any:
        return self.market.chain.ask(request)

    def status(self) -> Any:
        return self.query(StatusRequest())

    def params(self) -> Any:
        return read_params(self.query(ParamsRequest()))

    def send(self, *messages: Message) -> Any:
        if any(isinstance(message, MsgOpenChallenge) for message in messages) and self.crash_after:
            raise KeyboardInterrupt
        result = self.market.chain.block(*messages, seconds=0)
        if any(tx.code for tx in result.tx_results):
            raise TxRefused(INSUFFICIENT_BOND, result.tx_results[0].log)
        return replace_receipt(self.market.chain.height)


def replace_receipt(height: int) -> Any:
    class Receipt:
        pass

    receipt = Receipt()
    receipt.height = height  # type: ignore[attr-defined]
    return receipt


class Tower:
    """A watchtower with what it told, and a clock of its own."""

    def __init__(
        self,
        market: Market,
        folder: Path,
        check: Callable[[AuditPlace], Finding | ClusterError | None],
        name: str = CONSUMER,
        **more: Any,
    ) -> None:
        self.market, self.told, self.time = market, cast(list[dict[str, object]], []), 0.0
        self.seen: list[AuditPlace] = []
        self.node = Node(market, name)
        self.meters = Meters(metrics.METRICS)
        self._check = check
        budget = more.pop("budget", TowerBudget(10**8))
        self.tower = Watchtower(
            client=cast(ChainClient, self.node),
            sender=cast(TxSender, self.node),
            secret=b"secret",
            store=TowerStore(folder / "watchtower.db"),
            check=self.check,
            tell=lambda event, text, /, **values: self.told.append({"event": event, "text": text, **values}),
            meters=self.meters,
            name=lambda place: f"{place.kind.name.lower()} {place.segment}",
            budget=budget,
            now=lambda: self.time,
            **more,
        )

    def check(self, _: OrderResponse, __: Round, place: AuditPlace, left: float) -> PlaceCheck:
        assert left > 0
        self.seen.append(place)
        found = self._check(place)
        if isinstance(found, ClusterError):
            raise found
        if found is None:
            return PlaceCheck(place, Finding(AnswerKind.FINISHED, b"", 0), b"", agrees=True)
        return PlaceCheck(place, found, bytes(32), agrees=False, why="" if found != UNSERVED else "no answer")

    def steps(self, count: int) -> int:
        """Make steps, and return how many of them recomputed a place."""
        busy = 0
        for _ in range(count):
            self.time += 0.01
            busy += self.tower.step()
        return busy

    def look_again(self, seconds: float = LOOK_SECONDS) -> None:
        self.time += seconds + 0.1
        self.tower.step()

    def events(self) -> list[object]:
        return [told["event"] for told in self.told]


def only_at(place: AuditPlace) -> Callable[[AuditPlace], Finding | None]:
    return lambda asked: Finding(AnswerKind.FINISHED, RIGHT_ROOT, 0) if asked == place else None


def watched_round() -> tuple[Market, bytes, AuditPlace]:
    market, order_id = closed_round()
    place = missed(market, order_id)
    verified_by_lot(market, order_id)
    return market, order_id, place


def test_it_recomputes_every_place_once_that_no_panel_has_drawn(tmp_path: Path) -> None:
    market, order_id, _ = watched_round()
    tower = Tower(market, tmp_path, lambda _: None)
    found = market.all_of(order_id)
    closed = market.round(order_id, 0)
    drawn = {each.place for each in market.panel(order_id, 0).places}
    expected = set(list_places(get_extents(found, closed), closed.stopped)) - drawn
    assert tower.steps(len(expected)) == len(expected)
    assert set(tower.seen) == expected
    assert tower.steps(2) == 0
    totals = tower.tower.totals
    assert (totals.right, totals.wrong, totals.work) == (
        len(expected),
        0,
        sum(place_work(found.order.terms, place.kind) for place in expected),
    )
    assert values(tower.meters.text())["assay_watchtower_places_total", "right"] == len(expected)


def test_two_watchtowers_choose_different_places() -> None:
    market, order_id, _ = watched_round()
    found = (market.all_of(order_id),)
    chosen = set()
    for secret in (b"one", b"two", b"three", b"four"):
        watch = Watch(me=CONSUMER, secret=secret, validators=frozenset(), margin=1)
        target = choose_target(found, market.chain.clock, watch)
        assert target is not None
        chosen.add(target.place)
    assert len(chosen) > 1


def test_a_wrong_segment_is_challenged_and_brings_its_reward(tmp_path: Path) -> None:
    market, order_id, place = watched_round()
    tower = Tower(market, tmp_path, only_at(place))
    while not tower.tower.totals.wrong:
        assert tower.steps(1)
    assert tower.events()[-2:] == ["wrong", "challenged"]
    (record,) = tower.tower.store.challenges()
    assert (record.number, record.state) == (1, DisputeState.OPEN)
    # It does not recompute more of a leg that it has accused.
    before = len(tower.seen)
    tower.look_again()
    assert len(tower.seen) == before
    assert values(tower.meters.text())["assay_watchtower_bond_locked_uassay",] == record.bond
    market.about = 1
    market.say_all(order_id, lambda: found_wrong(market, order_id))
    market.chain.pass_time(5)
    tower.look_again()
    (record,) = tower.tower.store.challenges()
    (share,) = market.all_of(order_id).shares
    assert record.state == DisputeState.UPHELD
    assert 0 < record.reward <= record.largest <= share.bond // 5
    assert tower.tower.totals.earned == record.reward
    assert tower.told[-1]["event"] == "ended"
    tower.look_again()
    assert values(tower.meters.text())["assay_watchtower_earned_uassay",] == record.reward


def test_a_challenge_that_the_panel_refutes_is_counted_as_a_loss(tmp_path: Path) -> None:
    market, order_id, place = watched_round()
    tower = Tower(market, tmp_path, only_at(place))
    while not tower.tower.totals.wrong:
        assert tower.steps(1)
    market.about = 1
    market.say_all(order_id, lambda: market.answers(order_id))
    market.chain.pass_time(3)
    tower.look_again()
    (record,) = tower.tower.store.challenges()
    assert (record.state, record.burnt) == (DisputeState.FAILED, record.bond)
    assert tower.tower.totals.lost == record.bond


def test_a_dry_run_sends_nothing_and_counts_a_leg_once(tmp_path: Path) -> None:
    market, order_id, _ = watched_round()
    wrong = Finding(AnswerKind.FINISHED, RIGHT_ROOT, 0)
    tower = Tower(market, tmp_path, lambda _: wrong, dry_run=True)
    tower.steps(3)
    assert tower.events() == ["wrong", "would_challenge"]
    totals = tower.tower.totals
    closed = market.round(order_id, 0)
    assert totals.would_earn == largest_reward(market.all_of(order_id), closed, tower.seen[0]) > 0
    assert totals.would_lock > 0
    assert not market.chain.seen("challenge.committed")
    assert not tower.tower.store.challenges()


def test_a_budget_of_bond_delays_a_challenge_until_there_is_room(tmp_path: Path) -> None:
    market, _, place = watched_round()
    tower = Tower(market, tmp_path, only_at(place), budget=TowerBudget(1))
    while not tower.tower.totals.wrong:
        assert tower.steps(1)
    assert tower.events()[-1] == "over_budget"
    tower.look_again(RETRY_SECONDS)
    assert tower.events().count("over_budget") == 1
    tower.tower.budget = TowerBudget(10**8)
    tower.look_again(RETRY_SECONDS)
    assert tower.events()[-1] == "challenged"


def test_a_budget_of_work_bounds_an_hour(tmp_path: Path) -> None:
    market, order_id, _ = watched_round()
    terms = market.order(order_id).terms
    largest = max(place_work(terms, kind) for kind in {place.kind for place in list_places_of(market, order_id)})
    tower = Tower(market, tmp_path, lambda _: None, budget=TowerBudget(1, work=2 * largest))
    tower.steps(60)
    assert largest < tower.tower.totals.work <= 2 * largest


def list_places_of(market: Market, order_id: bytes) -> list[AuditPlace]:
    closed = market.round(order_id, 0)
    return list_places(get_extents(market.all_of(order_id), closed), closed.stopped)


def test_a_killed_watchtower_opens_what_it_committed_to(tmp_path: Path) -> None:
    market, _, place = watched_round()
    tower = Tower(market, tmp_path, only_at(place))
    tower.node.crash_after = 1
    with pytest.raises(KeyboardInterrupt):
        tower.steps(40)
    assert market.chain.seen("challenge.committed")
    tower.tower.store.close()
    again = Tower(market, tmp_path, only_at(place))
    again.steps(1)
    assert again.events()[0] == "challenged"
    assert len(market.chain.seen("challenge.committed")) == 1
    assert len(market.chain.seen("challenge.opened")) == 1
    # Killed once more before it wrote down that the challenge is open, it finds the challenge on the chain.
    (record,) = again.tower.store.challenges()
    again.tower.store.put(replace(record, number=0, state=0))
    again.look_again(RETRY_SECONDS)
    assert len(market.chain.seen("challenge.committed")) == 1


def test_a_place_that_is_not_served_is_challenged_only_on_demand(tmp_path: Path) -> None:
    market, _, __ = watched_round()
    tower = Tower(market, tmp_path / "one", lambda _: UNSERVED)
    assert tower.steps(2) == 1
    assert tower.events() == ["unserved"]
    tower.look_again(RETRY_SECONDS)
    assert tower.events() == ["unserved", "unserved"]
    other = Tower(market, tmp_path / "two", lambda _: UNSERVED, unserved=True)
    other.steps(1)
    assert other.events() == ["unserved", "challenged"]


def test_a_refusal_postpones_the_round_and_the_place_stays_open(tmp_path: Path) -> None:
    market, _, __ = watched_round()
    busy = ClusterError(ClusterErrorKind.WRONG_STATE, "not now", "later")
    tower = Tower(market, tmp_path, lambda _: busy)
    assert tower.steps(3) == 1
    assert tower.events() == ["refused"]
    tower.look_again(RETRY_SECONDS)
    assert tower.seen[0] == tower.seen[1]


def test_it_looks_at_no_round_that_it_may_not_challenge(tmp_path: Path) -> None:
    market, order_id, _ = watched_round()
    (terms,) = (market.all_of(order_id),)
    named = ChallengeTerms(addresses=("v7p0",))
    terms = replace(terms, order=replace(terms.order, challenges=named))
    clock = market.chain.clock

    def target(name: str, at: int = clock, validators: frozenset[str] = frozenset(market.validators)) -> object:
        return choose_target((terms,), at, Watch(me=name, secret=b"s", validators=validators, margin=10))

    assert target("v3") is not None
    assert target("v0") is None, "its own leg"
    assert target("v7p0") is not None, "named by the order"
    assert target("v3p0") is None, "neither named, nor the consumer, nor a validator"
    ends = market.round(order_id, 0).window_ends
    assert target("v3", ends - MARGIN_SECONDS - 1) is not None
    assert target("v3", ends - MARGIN_SECONDS) is None


def test_a_round_whose_panel_has_not_drawn_its_places_waits() -> None:
    market, order_id = closed_round()
    found = market.all_of(order_id)
    watch = Watch(me=CONSUMER, secret=b"s", validators=frozenset(), margin=1)
    assert not found.panels[0].places
    assert choose_target((found,), market.chain.clock, watch) is None


def test_the_largest_reward_is_of_the_bond_at_fault() -> None:
    market, order_id, place = watched_round()
    found, closed = market.all_of(order_id), market.round(order_id, 0)
    (share,) = found.shares
    leg = found.legs[0]
    assert largest_reward(found, closed, place) == share.bond // 5
    aggregation = list_places_of(market, order_id)[-1]
    assert largest_reward(found, closed, aggregation) == leg.job_bond // 5
    if share.drawn:
        assert largest_reward(found, closed, replace(place, segment=share.drawn[0])) == leg.job_bond // 5


def test_a_home_belongs_to_one_chain_and_one_account(tmp_path: Path) -> None:
    store = TowerStore(tmp_path / "watchtower.db")
    store.own(CHAIN_ID, "v1")
    store.own(CHAIN_ID, "v1")
    with pytest.raises(WatchtowerError, match="another --home"):
        store.own(CHAIN_ID, "v2")
    with locked_tower(tmp_path), pytest.raises(WatchtowerError, match="already runs"), locked_tower(tmp_path):
        pass


def test_it_waives_rounds_whose_places_are_all_right(tmp_path: Path) -> None:
    market, order_id = waiting_round(ChallengeTerms(wait=400))
    verified_by_lot(market, order_id)
    tower = Tower(market, tmp_path, lambda _: None)
    tower.steps(2)
    assert "waived" not in tower.events()
    while tower.steps(1):
        pass
    assert tower.events()[-1] == "waived"
    (seen,) = market.chain.seen("challenge.waived")
    assert (seen.get("account"), seen.get("until"), seen.get("waived")) == (CONSUMER, "1", "0")
    tower.look_again()
    assert tower.events().count("waived") == 1


def test_it_waives_nothing_that_it_did_not_find_right(tmp_path: Path) -> None:
    market, order_id = waiting_round(ChallengeTerms(wait=400))
    verified_by_lot(market, order_id)
    tower = Tower(market, tmp_path, lambda place: UNSERVED if place.segment % 2 else None)
    for _ in range(8):
        tower.look_again(RETRY_SECONDS)
    while tower.steps(1):
        pass
    assert "unserved" in tower.events()
    assert "waived" not in tower.events()


# --- appeals ---------------------------------------------------------------------------------------


def test_it_appeals_a_ruling_against_a_place_that_it_finds_right(tmp_path: Path) -> None:
    market = make_market()
    order_id = capture(market)
    tower = Tower(market, tmp_path, lambda _: None)
    assert tower.steps(1) == 1
    assert market.panel(order_id, 0).appellant == CONSUMER
    assert tower.seen == [market.panel(order_id, 0).places[0].place]
    assert "appealed" in tower.events()


def test_it_leaves_a_ruling_alone_that_it_finds_right(tmp_path: Path) -> None:
    market = make_market()
    order_id = capture(market)
    tower = Tower(market, tmp_path, only_at(market.panel(order_id, 0).places[0].place))
    tower.steps(1)
    assert market.panel(order_id, 0).awaits_appeal
    assert not tower.events()


def test_an_appeal_beyond_its_budget_is_only_told(tmp_path: Path) -> None:
    market = make_market()
    order_id = capture(market)
    tower = Tower(market, tmp_path, lambda _: None, budget=TowerBudget(BOND - 1))
    tower.steps(1)
    assert market.panel(order_id, 0).awaits_appeal
    assert tower.events() == ["would_appeal"]

"""What a look at the chain reads, how often, and what it leaves behind."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from chain.client.errors import ChainError, ErrorKind
from chain.state_machine.attest.tables import ATTEST_POLICIES, CREDENTIALS, CURRENT, LIVE_POLICIES, OWNED
from chain.state_machine.store import Overlay
from domain.attest.records import AttestPolicy, Credential
from domain.disputes.messages import MsgAppeal
from domain.ledger.queries import AccountRequest
from domain.legs.params import LegsParams
from domain.legs.queries import LiveLegsRequest
from domain.legs.records import LegState
from domain.market.records import OrderState
from domain.params import local_params
from domain.proof.params import ProofParams
from domain.proof.queries import OrderRequest
from domain.registry.messages import MsgAdmitProvider, MsgCertifyProvider, MsgRegisterProvider
from domain.registry.queries import (
    ProviderRequest,
    ProvidersRequest,
    ProvidersResponse,
    ValidatorsRequest,
)
from domain.registry.records import Provider
from link.blobs import BlobStore
from tests.operations.life import POLICY
from tests.support.chain_market import ANY, Market, bid, digest, submit
from tests.unit.validator.loop import PARAMS, Node
from validator.decide.records import new_order
from validator.decide.seats import new_seat
from validator.decide.upkeep import CERTIFY_SECONDS
from validator.decide.view import ChainView, Member, OwnPanel
from validator.ledger import Ledger
from validator.observer import CREDENTIAL_SECONDS, SLOW_SECONDS, Observer
from validator.store import ValidatorStore

ME = "v0"


class Asked(Node):
    """A node that remembers what it was asked."""

    def __init__(self, market: Market) -> None:
        super().__init__(market)
        self.asked: list[Any] = []
        self.slow_to_answer: type | None = None

    def query(self, request: Any) -> Any:
        self.asked.append(request)
        if type(request) is self.slow_to_answer:
            raise ChainError(ErrorKind.TIMEOUT, "no answer in time", "")
        return super().query(request)


@dataclass
class Setting:
    market: Market
    node: Asked
    observer: Observer
    now: list[float]
    view: ChainView = field(default_factory=lambda: ChainView(0, {}, {}, {}))

    def look(self, seconds: float = SLOW_SECONDS) -> list[str]:
        """Look again after so many seconds, and return what was asked."""
        self.now[0] += seconds
        self.node.asked.clear()
        self.view = self.observer.look(self.view)
        return [type(request).__name__.removesuffix("Request") for request in self.node.asked]

    @property
    def legs(self) -> list[tuple[bytes, int]]:
        return self.observer.ledger.store.all_orders()


@pytest.fixture
def market() -> Market:
    return Market(PARAMS)


@pytest.fixture
def setting(tmp_path: Path, market: Market) -> Iterator[Setting]:
    node, now = Asked(market), [100.0]
    store, blobs = ValidatorStore(tmp_path / "v.db"), BlobStore(tmp_path / "b", 1 << 20)
    store.chain("assay-test")
    ledger = Ledger(store, blobs, Event())
    yield Setting(market, node, Observer(ME, node, ledger, lambda: now[0]), now)  # type: ignore[arg-type]
    store.close()
    blobs.close()


def test_live_orders_are_read_each_time_and_the_rest_now_and_then(setting: Setting) -> None:
    order_id = setting.market.run()
    assert setting.look() == [
        "LiveLegs",
        "Order",
        "Validators",
        "Providers",
        "PanelDuties",
        "WitnessDuties",
        "AttestDuties",
    ]
    assert setting.look(0.2) == ["LiveLegs", "Order", "PanelDuties", "WitnessDuties", "AttestDuties"]
    assert setting.view.orders.keys() == {order_id}
    assert set(setting.view.validators) == set(setting.market.validators)
    assert set(setting.view.providers) == set(setting.market.clusters[ME])
    assert setting.look(SLOW_SECONDS) == [
        "LiveLegs",
        "Order",
        "Validators",
        "Providers",
        "PanelDuties",
        "WitnessDuties",
        "AttestDuties",
    ]


def test_a_match_is_recorded_at_the_first_look_and_once(setting: Setting) -> None:
    order_id = setting.market.submit()
    setting.look(0.2)
    assert setting.legs == [(order_id, 1)]
    store = setting.observer.ledger.store
    changed = replace(new_order(order_id, 1), excluded=("somebody",))
    store.save(changed)
    setting.look(0.2)
    assert store.load(order_id, 1) == changed


def test_what_others_won_is_no_business_of_ours(setting: Setting) -> None:
    setting.market.chain.ok(bid("v1", price=1))
    order_id = setting.market.submit()
    assert setting.market.leg(order_id).validator == "v1"
    setting.look()
    assert setting.view.orders == {}
    assert setting.legs == []


def test_a_closed_order_is_read_once_and_kept_without_its_details(setting: Setting) -> None:
    order_id = setting.market.run()
    setting.look()
    for _ in range(setting.market.order(order_id).terms.rounds):
        setting.market.train_round(order_id)
    setting.market.chain.pass_time(PARAMS.of(ProofParams).round_window + 2)
    setting.market.pass_handover(order_id)
    assert setting.market.order(order_id).state == OrderState.CLOSED
    assert "Order" in setting.look()
    assert "Order" not in setting.look()
    kept = setting.view.orders[order_id]
    assert kept.order.state == OrderState.CLOSED
    assert kept.legs
    assert (kept.shares, kept.rounds, kept.panels, kept.payments) == ((),) * 4
    setting.observer.ledger.store.forget(order_id, 1)
    setting.look()
    assert setting.view.orders == {}


def test_a_failed_leg_is_followed_until_its_order_is_closed(setting: Setting) -> None:
    """Its closed rounds are audited and paid; duties do not name it any more."""
    order_id = setting.market.run()
    setting.look()
    setting.market.chain.pass_time(PARAMS.of(LegsParams).progress_base * 2)
    asked = setting.look()
    assert LiveLegsRequest(ME) in setting.node.asked
    assert "Order" in asked
    assert setting.view.orders[order_id].legs[0].validator == ME


def test_an_order_that_the_node_does_not_know_is_left_alone(setting: Setting) -> None:
    setting.observer.ledger.store.save(new_order(digest("elsewhere"), 1))
    setting.look()
    assert setting.view.orders == {}
    assert setting.legs == [(digest("elsewhere"), 1)]


def test_a_node_that_fails_in_the_middle_changes_nothing(setting: Setting) -> None:
    order_id = setting.market.run()
    setting.look()
    view = setting.view
    setting.node.down = True
    with pytest.raises(ChainError, check=lambda e: e.kind is ErrorKind.UNAVAILABLE):
        setting.look()
    assert setting.view is view
    setting.node.down = False
    assert setting.look(0.1) == [
        "LiveLegs",
        "Order",
        "Validators",
        "Providers",
        "PanelDuties",
        "WitnessDuties",
        "AttestDuties",
    ]
    assert order_id in setting.view.orders


@pytest.mark.parametrize("request_type", [OrderRequest, ValidatorsRequest, ProvidersRequest])
def test_an_order_that_could_not_be_read_is_not_taken_for_unknown(setting: Setting, request_type: type) -> None:
    setting.market.run()
    setting.look()
    # No duty names it any more.
    setting.market.chain.pass_time(PARAMS.of(LegsParams).progress_base * 2)
    view = setting.view
    setting.node.slow_to_answer = request_type
    with pytest.raises(ChainError, check=lambda e: e.kind is ErrorKind.TIMEOUT):
        setting.look()
    assert setting.view is view


def test_a_node_that_is_behind_is_refused_until_it_has_caught_up(setting: Setting) -> None:
    setting.market.chain.pass_time(5)
    past = deepcopy(setting.market.chain.store)
    setting.market.chain.pass_time(5)
    setting.look()
    setting.node.past = past
    with pytest.raises(ChainError, match="is behind"):
        setting.look()
    another = Observer(ME, setting.node, setting.observer.ledger)  # type: ignore[arg-type]
    with pytest.raises(ChainError, match="is behind"):
        another.look(setting.view)
    setting.node.past = None
    setting.look()


def test_a_speed_counts_until_it_expires_and_is_measured_again_before(setting: Setting) -> None:
    left = CERTIFY_SECONDS // 10
    message = MsgCertifyProvider(ME, "v0p0", "cpu", 7, 1, 1, left + 5)
    setting.market.chain.ok(message)
    setting.look()
    unknown = Member(0, due=True, newcomer=True)
    assert setting.view.providers == {"v0p0": Member(7, due=False, newcomer=True), "v0p1": unknown}
    setting.market.chain.pass_time(6)
    setting.look()
    assert setting.view.providers == {"v0p0": Member(7, due=True, newcomer=True), "v0p1": unknown}
    setting.market.chain.ok(replace(message, valid_for=3))
    setting.market.chain.pass_time(4)
    setting.look()
    assert setting.view.providers == {"v0p0": unknown, "v0p1": unknown}


def test_who_asks_is_an_applicant_where_the_chain_has_its_request(setting: Setting) -> None:
    chain = setting.market.chain
    chain.ok(MsgRegisterProvider("v1p0", ME))

    def applicants(*asking: str) -> frozenset[str]:
        setting.now[0] += SLOW_SECONDS
        setting.view = setting.observer.look(setting.view, asking=asking)
        return setting.view.applicants

    assert applicants("v1p0", "v1p1", "v0p0", "stranger") == {"v1p0"}
    setting.node.asked.clear()
    setting.view = setting.observer.look(setting.view, asking=("v1p0",))
    assert setting.view.applicants == {"v1p0"}
    assert ProviderRequest("v1p0") not in setting.node.asked  # asked again now and then
    assert applicants() == frozenset()
    chain.ok(MsgRegisterProvider("v1p0", "v2"))
    assert applicants("v1p0") == frozenset()
    chain.ok(MsgRegisterProvider("v1p0", ME), MsgAdmitProvider(ME, "v1p0"))
    assert applicants("v1p0") == frozenset()
    assert "v1p0" in setting.view.providers


def test_a_cluster_of_more_than_a_page_is_read_whole(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = [Provider(f"p{number:05}", ME, b"", None, 0, 0) for number in range(2_000)]
    real = setting.node.query

    def query(request: Any) -> Any:
        if isinstance(request, ProvidersRequest):
            after = [provider for provider in crowd if provider.address > request.after]
            return ProvidersResponse(tuple(after[: request.limit]))
        return real(request)

    monkeypatch.setattr(setting.node, "query", query)
    setting.look()
    assert len(setting.view.providers) == 2_000


def test_the_bond_of_a_provider_with_a_credential_is_read_for_orders_that_take_them(
    setting: Setting, market: Market
) -> None:
    """Those without one are asked about again only after some time."""
    first, second = market.clusters[ME]
    policy = AttestPolicy(name="tpm", policy=POLICY, valid_for=10**6, added_at=0)
    credential = Credential(digest("device"), first, "tpm", digest("executor"), since=0, ends_at=10**6)

    def grant(store: Overlay) -> None:
        ATTEST_POLICIES.put(store, policy)
        LIVE_POLICIES.set(store, 1)
        CREDENTIALS.put(store, credential)
        OWNED.mark(store, first, credential.id)
        CURRENT.set(store, credential.id, first)

    market.chain.change(grant)
    market.accept(market.submit(submit()))
    setting.look()
    assert {member.attested_bond for member in setting.view.providers.values()} == {0}
    market.accept(market.submit(submit(conditions=replace(ANY, attested=True))))
    asked = setting.look()
    free = market.chain.ask(AccountRequest(first)).bond.free
    assert free
    assert {name: member.attested_bond for name, member in setting.view.providers.items()} == {first: free, second: 0}
    assert asked.count("Credentials") == 2
    assert setting.look().count("Credentials") == 1
    assert setting.look(CREDENTIAL_SECONDS).count("Credentials") == 2


@pytest.mark.parametrize("market", [Market(PARAMS.replace(auditors=3), validators=14)])
def test_a_vote_on_a_slash_is_read_until_it_is_over(setting: Setting, market: Market) -> None:
    """Its leg may have failed before it begins; the validator serves the seats all the same."""
    order_id = market.run(submit(deposit=900_000, rematch=False))
    setting.look()
    market.train_round(order_id)
    for stage in (1, 2):
        market.wait_stage(order_id, 0, stage)
        answers = market.answers(order_id)
        wrong = (replace(answers[0], root=digest("another root")), *answers[1:])
        market.say(order_id, dict.fromkeys(market.seated(order_id, 0, stage), wrong))
    setting.look()
    key = market.panel(order_id, 0).key
    assert not setting.view.panels[key].is_open
    market.wait_stage(order_id, 0, 3)
    assert market.leg(order_id).state is LegState.FAILED
    setting.look()
    about = setting.view.panels[key]
    assert about.is_open
    assert about.votes_on_slash
    assert {seat.stage for seat in about.seats} == {1, 2, 3}
    answers = market.answers(order_id)
    market.say(order_id, dict.fromkeys(market.seated(order_id, 0, 3), answers))
    market.pass_stands(order_id)
    setting.look()
    setting.look()
    assert setting.view.orders[order_id].rounds == ()
    assert key not in setting.view.panels


@pytest.mark.parametrize("market", [Market(PARAMS.replace(auditors=3), validators=14)])
def test_a_panel_whose_ruling_is_appealed_is_read_again(setting: Setting, market: Market) -> None:
    """All validators decide again, and this validator serves them. Otherwise every appeal would be lost."""
    order_id = market.run(submit(deposit=900_000, rematch=False))
    market.train_round(order_id)
    for stage in (1, 2):
        market.wait_stage(order_id, 0, stage)
        answers = market.answers(order_id)
        wrong = (replace(answers[0], root=digest("another root")), *answers[1:])
        market.say(order_id, dict.fromkeys(market.seated(order_id, 0, stage), wrong))
    setting.look()
    key = market.panel(order_id, 0).key
    own = setting.view.panels[key]
    assert isinstance(own, OwnPanel)
    assert own.panel.awaits_appeal
    market.chain.ok(MsgAppeal(ME, order_id, 1, 0, 0))
    market.wait_stage(order_id, 0, 3)
    setting.look()
    about = setting.view.panels[key]
    assert about.is_open
    assert about.asked
    assert {seat.stage for seat in about.seats} == {1, 2, 3}


def test_a_panel_is_read_as_long_as_a_seat_of_this_validator_may_serve_later_ones(setting: Setting) -> None:
    market = setting.market = Market(local_params(), bidders=("v1",))
    setting.observer.client = setting.node = Asked(market)  # type: ignore[assignment]
    for _ in range(8):
        order_id = market.run()
        assert market.leg(order_id).validator == "v1"
        market.train_round(order_id)
        market.wait_stage(order_id)
        if ME in market.seated(order_id):
            break
    setting.look(0.2)
    ((key, duty),) = setting.view.duties.items()
    setting.observer.ledger.store.save_seat(new_seat(duty, 1))
    setting.look(0.2)
    # The seat is in the first stage, and has not revealed.
    assert setting.view.earlier == {}
    other = next(name for name in market.seated(order_id) if name != ME)
    right = market.answers(order_id)
    market.say(order_id, {ME: right, other: market.unavailable(order_id)}, leaves=market.leaves(order_id))
    market.wait_stage(order_id, stage=2)
    setting.look(0.2)
    assert setting.view.earlier.keys() == {key.panel}
    about = setting.view.earlier[key.panel]
    assert {seat.stage for seat in about.seats} == {1, 2}
    assert next(seat for seat in about.seats if seat.validator == ME).revealed
    market.say(order_id, dict.fromkeys(market.seated(order_id, 0, 2), market.answers(order_id)))
    assert market.panel(order_id, 0).is_decided
    setting.look(0.2)
    assert setting.view.earlier == {}

"""Endpoints, clusters, capabilities."""

from dataclasses import replace

import pytest

from chain.state_machine.registry.tables import CLUSTERS
from domain.errors import (
    ALREADY_EXISTS,
    BAD_FIELD,
    INVALID_ADDRESS,
    NOT_FOUND,
    NOT_YET,
    NOT_YOURS,
    WRONG_STATE,
)
from domain.params import local_params
from domain.registry.messages import (
    MsgAdmitProvider,
    MsgCertifyProvider,
    MsgDismissProvider,
    MsgLeaveCluster,
    MsgPromiseAudits,
    MsgRegisterProvider,
    MsgSetEndpoint,
)
from domain.registry.queries import ProviderRequest, ProvidersRequest, ValidatorsRequest
from domain.registry.records import Provider, Validator
from tests.support.chain_harness import pub_key
from tests.support.chain_market import Market, submit

ENDPOINT = MsgSetEndpoint("v1", "192.0.2.7:7430", b"der")
CERTIFY = MsgCertifyProvider("v0", "v0p0", "cpu", 5 * 10**8, 10**9, 10**7, 600)


@pytest.fixture
def market() -> Market:
    return Market()


def provider(market: Market, address: str) -> Provider:
    found: tuple[Provider, ...] = market.chain.ask(ProvidersRequest("", 0, "")).providers
    return next(p for p in found if p.address == address)


def test_an_endpoint_is_published(market: Market) -> None:
    market.chain.ok(ENDPOINT)
    validators = market.chain.ask(ValidatorsRequest()).validators
    (validator,) = [v for v in validators if v.operator == "v1"]
    assert (validator.endpoint, validator.certificate) == ("192.0.2.7:7430", b"der")
    assert market.chain.seen("validator.endpoint")[-1].get("operator") == "v1"


@pytest.mark.parametrize("endpoint", ["", "host", ":80", "host:", "host:0", "host:65536", "host:٣", "h" * 130 + ":1"])
def test_an_endpoint_is_host_and_port(market: Market, endpoint: str) -> None:
    market.chain.refused(BAD_FIELD, replace(ENDPOINT, endpoint=endpoint), field="endpoint")


@pytest.mark.parametrize("certificate", [b"", bytes(4097)])
def test_a_certificate_is_bounded(market: Market, certificate: bytes) -> None:
    market.chain.refused(BAD_FIELD, replace(ENDPOINT, certificate=certificate), field="certificate")


def test_only_validators_have_an_endpoint(market: Market) -> None:
    market.chain.refused(NOT_FOUND, replace(ENDPOINT, operator="carol"))


def test_a_provider_joins_with_the_key_of_its_account(market: Market) -> None:
    found = provider(market, "v0p0")
    assert (found.validator, found.pub_key, found.capability) == ("v0", pub_key("v0p0"), None)
    assert found.admitted
    names = [p.address for p in market.chain.ask(ProvidersRequest("v0", 0, "")).providers]
    assert names == ["v0p0", "v0p1"]


def test_joining_twice_an_unknown_or_no_validator_is_refused(market: Market) -> None:
    market.chain.refused(ALREADY_EXISTS, MsgRegisterProvider("v0p0", "v0"))
    market.chain.refused(NOT_FOUND, MsgRegisterProvider("v0p0", "nobody"))
    market.chain.refused(INVALID_ADDRESS, MsgRegisterProvider("v0p0", ""))


def test_a_provider_moves_and_leaves(market: Market) -> None:
    market.chain.ok(CERTIFY)
    market.chain.ok(MsgRegisterProvider("v0p0", "v1"))
    assert provider(market, "v0p0").capability is None
    assert [p.address for p in market.chain.ask(ProvidersRequest("v0", 0, "")).providers] == ["v0p1"]
    market.chain.ok(MsgLeaveCluster("v0p0"))
    assert provider(market, "v0p0").validator == ""
    market.chain.refused(WRONG_STATE, MsgLeaveCluster("v0p0"))
    market.chain.refused(NOT_FOUND, MsgLeaveCluster("carol"))
    market.chain.ok(MsgRegisterProvider("v0p0", "v0"))
    assert not provider(market, "v0p0").admitted


def test_who_asks_is_in_no_cluster_until_its_validator_admits_it(market: Market) -> None:
    chain = market.chain
    chain.ok(MsgRegisterProvider("v0p0", "v1"))
    asking = provider(market, "v0p0")
    assert (asking.validator, asking.admitted) == ("v1", False)
    assert not CLUSTERS.has(chain.overlay(), "v1", "v0p0")
    assert chain.ask(ProviderRequest("v0p0")).provider == asking
    chain.refused(NOT_YOURS, replace(CERTIFY, validator="v1"))
    chain.refused(NOT_YOURS, MsgAdmitProvider("v0", "v0p0"), field="provider")
    chain.refused(NOT_YOURS, MsgAdmitProvider("v0p0", "v0p0"), field="provider")
    chain.refused(NOT_FOUND, MsgAdmitProvider("v0", "carol"))
    chain.refused(ALREADY_EXISTS, MsgRegisterProvider("v0p0", "v1"), field="validator")
    chain.ok(MsgAdmitProvider("v1", "v0p0"), replace(CERTIFY, validator="v1"))
    assert provider(market, "v0p0").is_in("v1")
    assert "v0p0" in [p.address for p in chain.ask(ProvidersRequest("v1", 0, "")).providers]
    assert chain.seen("provider.admitted")[-1].get("validator") == "v1"
    chain.refused(ALREADY_EXISTS, MsgAdmitProvider("v1", "v0p0"), field="provider")


def test_one_request_at_a_time(market: Market) -> None:
    """Who asks another validator does not ask the one before any more, and its state holds nothing of it."""
    chain = market.chain
    for name in ("v1", "v2", "v3"):
        chain.ok(MsgRegisterProvider("v0p0", name))
    assert provider(market, "v0p0").validator == "v3"
    for name in ("v1", "v2"):
        chain.refused(NOT_YOURS, MsgAdmitProvider(name, "v0p0"))
    members = {v: CLUSTERS.keys(chain.overlay(), v) for v in market.validators}
    assert {v: len(list(found)) for v, found in members.items()} == {
        "v0": 1,
        "v1": 2,
        "v2": 2,
        "v3": 2,
    }
    chain.ok(MsgLeaveCluster("v0p0"))
    chain.refused(NOT_YOURS, MsgAdmitProvider("v3", "v0p0"))


def test_a_validator_dismisses_whom_it_admitted_and_refuses_who_asked(market: Market) -> None:
    chain = market.chain
    chain.refused(NOT_YOURS, MsgDismissProvider("v1", "v0p0"), field="provider")
    chain.ok(CERTIFY)
    chain.ok(MsgDismissProvider("v0", "v0p0"))
    gone = provider(market, "v0p0")
    assert (gone.validator, gone.admitted, gone.capability) == ("", False, None)
    assert not CLUSTERS.has(chain.overlay(), "v0", "v0p0")
    assert chain.seen("provider.dismissed")[-1].get("provider") == "v0p0"
    chain.refused(NOT_YOURS, MsgDismissProvider("v0", "v0p0"))
    chain.ok(MsgRegisterProvider("v0p0", "v0"), MsgDismissProvider("v0", "v0p0"))
    assert provider(market, "v0p0").validator == ""


def test_nobody_is_dismissed_while_a_share_is_committed(market: Market) -> None:
    """An operator that trained here, and was let go before the draw, would sit in the audit of its own share."""
    order_id = market.run()
    market.commit(order_id, market.trace(order_id))
    market.chain.refused(WRONG_STATE, MsgDismissProvider("v0", "v0p0"))
    market.chain.ok(MsgDismissProvider("v0", "v0p1"))


def test_nobody_leaves_while_a_share_is_committed(market: Market) -> None:
    order_id = market.run()
    market.commit(order_id, market.trace(order_id))
    market.chain.refused(WRONG_STATE, MsgLeaveCluster("v0p0"))
    market.chain.refused(WRONG_STATE, MsgRegisterProvider("v0p0", "v1"))
    market.chain.ok(MsgLeaveCluster("v0p1"))


def test_a_capability_is_measured_by_the_own_validator(market: Market) -> None:
    market.chain.ok(CERTIFY)
    capability = provider(market, "v0p0").capability
    assert capability is not None
    assert (capability.speed, capability.expires_at) == (5 * 10**8, market.chain.clock + 600)
    market.chain.refused(NOT_YOURS, replace(CERTIFY, validator="v1"))
    market.chain.refused(NOT_FOUND, replace(CERTIFY, provider="carol"))


@pytest.mark.parametrize(
    "change",
    [{"device_class": ""}, {"speed": 0}, {"memory": -1}, {"bandwidth": 2**63}, {"valid_for": 0}],
)
def test_measurements_are_bounded(market: Market, change: dict[str, int]) -> None:
    (name,) = change
    market.chain.refused(BAD_FIELD, replace(CERTIFY, **change), field=name)  # type: ignore[arg-type]


# --- what a validator promises as an auditor ---


def promised(market: Market) -> Validator:
    found: tuple[Validator, ...] = market.chain.ask(ValidatorsRequest()).validators
    return next(validator for validator in found if validator.operator == "v1")


def test_a_validator_promises_a_speed_and_a_rate() -> None:
    market = Market()
    market.chain.ok(MsgPromiseAudits("v1", 5, 7))
    assert (promised(market).audit_speed, promised(market).audit_rate) == (5, 7)
    told = market.chain.seen("validator.audits_promised")[-1]
    assert (told.get("operator"), told.get("speed"), told.get("rate")) == ("v1", "5", "7")
    market.chain.ok(MsgPromiseAudits("v1", 10**12, 10**10))
    market.chain.refused(NOT_FOUND, MsgPromiseAudits("v0p0", 5, 7))
    market.chain.refused(BAD_FIELD, MsgPromiseAudits("v1", 0, 7), field="speed")


def test_who_was_silent_promises_more_only_after_a_while() -> None:
    """Else it would raise at once what silence halves, and sit again for what it cannot do."""
    market = Market(local_params().replace(promise_wait=600), validators=3)
    name = "v2"
    for _ in range(2):
        order_id = market.run(submit(rematch=False))
        market.train_round(order_id)
        market.wait_stage(order_id)
        market.say(order_id, {"v1": market.answers(order_id)})
        market.chain.pass_until(market.panel(order_id, 0).reveals_end)
    halved = market.chain.clock - 1
    validators = market.chain.ask(ValidatorsRequest()).validators
    found = next(v for v in validators if v.operator == name)
    assert (found.audit_speed, found.audit_rate) == (10**10 // 2, 10**9 // 2)
    assert found.promise_halved_at <= halved + 1
    more = MsgPromiseAudits(name, 10**10, 10**9)
    market.chain.refused(NOT_YET, more, field="speed")
    market.chain.refused(NOT_YET, MsgPromiseAudits(name, 1, 10**9), field="rate")
    market.chain.ok(MsgPromiseAudits(name, 1, 1))
    market.chain.pass_until(found.promise_halved_at + 600 - 2)
    market.chain.refused(NOT_YET, more)
    market.chain.ok(more)

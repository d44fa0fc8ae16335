"""JSON of the SDK: decimal numbers, nulls, types inside an Any, and what is refused in requests."""

import json
from typing import Any

import pytest
from cosmpy.protos.cosmos.distribution.v1beta1 import query_pb2 as distribution
from cosmpy.protos.cosmos.staking.v1beta1 import query_pb2 as staking
from cosmpy.protos.cosmos.staking.v1beta1.staking_pb2 import Validator
from cosmpy.protos.cosmos.tx.v1beta1 import service_pb2 as tx
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import Tx, TxBody
from google.protobuf.any_pb2 import Any as AnyProto

from chain.app.rest.forms import PARAMETERS_MAX, read_body, read_parameters, to_json
from domain.errors import Refusal


def shown(message: Any) -> Any:
    return json.loads(to_json(message))


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        ("100000000000000000", "0.100000000000000000"),
        ("1", "0.000000000000000001"),
        ("12345000000000000000000", "12345.000000000000000000"),
        ("-5", "-0.000000000000000005"),
        ("0", "0.000000000000000000"),
        ("", "0.000000000000000000"),
    ],
)
def test_decimal_numbers_are_texts_with_a_point(wire: str, text: str) -> None:
    validator = shown(Validator(delegator_shares=wire, commission={"commission_rates": {"rate": wire}}))
    assert validator["delegator_shares"] == text
    assert validator["commission"]["commission_rates"]["rate"] == text
    rewards = shown(distribution.QueryDelegationRewardsResponse(rewards=[{"denom": "uassay", "amount": wire}]))
    assert rewards["rewards"] == [{"denom": "uassay", "amount": text}]


def test_enums_are_names_and_absent_messages_null() -> None:
    answer = shown(staking.QueryValidatorsResponse(validators=[Validator(status=3, tokens="5")]))
    (validator,) = answer["validators"]
    assert (validator["status"], validator["tokens"], validator["unbonding_height"]) == ("BOND_STATUS_BONDED", "5", "0")
    assert validator["commission"] is None
    assert answer["pagination"] is None


def test_a_message_of_an_unknown_type_cannot_be_shown() -> None:
    unknown = AnyProto(type_url="/no.such.Message", value=b"")
    with pytest.raises(ValueError, match="cannot be shown"):
        to_json(Tx(body=TxBody(messages=[unknown])))


def test_a_message_inside_itself_is_refused_and_does_no_harm() -> None:
    inner = AnyProto(type_url="/google.protobuf.Any")
    for _ in range(3_000):
        inner = AnyProto(type_url="/google.protobuf.Any", value=inner.SerializeToString())
    with pytest.raises(ValueError, match="cannot be shown"):
        to_json(Tx(body=TxBody(messages=[inner])))


def test_parameters_are_found_by_both_names() -> None:
    for name in ("pagination.count_total", "pagination.countTotal"):
        request = staking.QueryValidatorsRequest()
        read_parameters([(name, "true"), ("status", "x"), ("pagination.key", "AA==")], request)
        assert (request.pagination.count_total, request.status, request.pagination.key) == (True, "x", b"\0")
    events = tx.GetTxsEventRequest()
    read_parameters([("events", "a"), ("events", "b"), ("order_by", "ORDER_BY_DESC")], events)
    assert (list(events.events), events.order_by) == (["a", "b"], 2)
    read_parameters([("order_by", "1")], events := tx.GetTxsEventRequest())
    assert events.order_by == 1


@pytest.mark.parametrize(
    "pairs",
    [
        [("status.x", "1")],
        [("pagination", "1")],
        [("", "1")],
        [(".", "1")],
        [("pagination.limit", "-1")],
        [("pagination.limit", str(2**64))],
        [("pagination.limit", "1e3000")],
        [("pagination.limit", "9" * 10_000)],
        [("pagination.key", "!")],
        [("status", "\ud800")],
        [("status", "x")] * (PARAMETERS_MAX + 1),
    ],
)
def test_parameters_that_do_not_fit_are_refused(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(Refusal):
        read_parameters(pairs, staking.QueryValidatorsRequest())


@pytest.mark.parametrize(
    "body",
    [
        "null",
        "1",
        '"x"',
        '{"tx": {"body": {"messages": [{"@type": "/no.such"}]}}}',
        '{"tx": 1}',
        "NaN",
        '{"a":' * 5_000,
    ],
)
def test_bodies_that_do_not_fit_are_refused(body: str) -> None:
    with pytest.raises(Refusal):
        read_body(body.encode(), tx.SimulateRequest())

"""``cosmos.feegrant`` on a solo node: who pays fees for whom."""

from typing import Any

import pytest
from cosmpy.protos.cosmos.feegrant.v1beta1 import feegrant_pb2 as proto

from chain.app.services.table import METHODS, Services
from domain.errors import Refusal
from domain.feegrant.messages import MsgGrantAllowance
from domain.times import Timestamp
from tests.support.fee_grants import basic, give, only, periodic
from tests.support.solo_node import ALICE, CHAIN_ID, OPERATOR, SoloNode
from wire.address import to_bech32
from wire.messages import to_proto
from wire.tx import build_tx

QUERY = "/cosmos.feegrant.v1beta1.Query/"
PEOPLE = [to_bech32(bytes([number] * 20)) for number in range(1, 4)]
ENDS = Timestamp(4_000_000_000, 5)


@pytest.fixture
def services(node: SoloNode) -> Services:
    """Return the services of a node on which alice granted several allowances, and the operator one."""
    made = [
        give(basic(), ALICE.address, PEOPLE[0]),
        give(basic(9, ENDS), ALICE.address, PEOPLE[1]),
        give(only("/a", "/b", inner=periodic(5, 60, basic=basic(9, ENDS))), ALICE.address, PEOPLE[2]),
    ]
    for sequence, message in enumerate(made):
        send(node, ALICE, 0, sequence, message)
    return Services(node.app, node.engine)


def send(node: SoloNode, key: Any, number: int, sequence: int, message: MsgGrantAllowance) -> None:
    raw = build_tx(
        [message],
        key,
        chain_id=CHAIN_ID,
        account_number=number,
        sequence=sequence,
        fee=basic(2_000).spend_limit,
        gas_limit=200_000,
    )
    assert node.engine.broadcast_sync(raw).code == 0
    node.engine.make_block()


def ask(services: Services, name: str, **fields: Any) -> Any:
    method = METHODS[QUERY + name]
    return method.response.FromString(services.call(method.path, method.request(**fields).SerializeToString()).data)


def test_an_allowance_is_as_the_granter_wrote_it(services: Services) -> None:
    grant = ask(services, "Allowance", granter=ALICE.address, grantee=PEOPLE[1]).allowance
    assert (grant.granter, grant.grantee) == (ALICE.address, PEOPLE[1])
    wrote = to_proto(give(basic(9, ENDS), ALICE.address, PEOPLE[1])).value
    assert grant.SerializeToString() == wrote  # a Grant has the fields of the message
    grant = ask(services, "Allowance", granter=ALICE.address, grantee=PEOPLE[2]).allowance
    allowed = proto.AllowedMsgAllowance.FromString(grant.allowance.value)
    inner = proto.PeriodicAllowance.FromString(allowed.allowance.value)
    assert list(allowed.allowed_messages) == ["/a", "/b"]
    assert (inner.period.seconds, inner.period_spend_limit[0].amount, inner.period_can_spend[0].amount) == (
        60,
        "5",
        "5",
    )
    assert (inner.basic.expiration.seconds, inner.basic.expiration.nanos) == (4_000_000_000, 5)


def test_what_is_not_there(services: Services) -> None:
    with pytest.raises(Refusal, match="not found"):
        ask(services, "Allowance", granter=OPERATOR.address, grantee=PEOPLE[0])
    with pytest.raises(Refusal, match="grantee"):
        ask(services, "Allowances", grantee="me")


def test_lists_in_pages(services: Services) -> None:
    found = ask(services, "AllowancesByGranter", granter=ALICE.address).allowances
    assert sorted(grant.grantee for grant in found) == sorted(PEOPLE)
    first = ask(services, "AllowancesByGranter", granter=ALICE.address, pagination={"limit": 2})
    rest = ask(
        services,
        "AllowancesByGranter",
        granter=ALICE.address,
        pagination={"limit": 2, "key": first.pagination.next_key},
    )
    assert [*first.allowances, *rest.allowances] == list(found)
    assert not rest.pagination.next_key
    (only_one,) = ask(services, "Allowances", grantee=PEOPLE[0]).allowances
    assert only_one.granter == ALICE.address
    assert not ask(services, "Allowances", grantee=OPERATOR.address).allowances

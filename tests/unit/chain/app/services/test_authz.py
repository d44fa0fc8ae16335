"""``cosmos.authz`` on a solo node: who may send messages for whom."""

from typing import Any

import pytest

from chain.app.services.table import METHODS, Services
from domain.authz.messages import GenericAuthorization, Grant, MsgGrant, SendAuthorization
from domain.errors import Refusal
from domain.ledger.messages import MsgSend
from domain.times import Timestamp
from tests.support.fee_grants import coins
from tests.support.solo_node import ALICE, CHAIN_ID, OPERATOR, SoloNode
from wire.address import to_bech32
from wire.messages import to_proto
from wire.tx import build_tx

QUERY = "/cosmos.authz.v1beta1.Query/"
BOB, CAROL = (to_bech32(bytes([number] * 20)) for number in (1, 2))
DELEGATE = "/cosmos.staking.v1beta1.MsgDelegate"
LIMITED = Grant(SendAuthorization(coins(9), (CAROL,)), Timestamp(4_000_000_000, 5))
MADE = [
    MsgGrant(ALICE.address, BOB, LIMITED),
    MsgGrant(ALICE.address, BOB, Grant(GenericAuthorization(DELEGATE), None)),
    MsgGrant(ALICE.address, CAROL, Grant(GenericAuthorization(MsgSend.URL), None)),
]


@pytest.fixture
def services(node: SoloNode) -> Services:
    """Return the services of a node on which alice made some authorizations."""
    for sequence, message in enumerate(MADE):
        raw = build_tx(
            [message],
            ALICE,
            chain_id=CHAIN_ID,
            account_number=0,
            sequence=sequence,
            fee=coins(2_000),
            gas_limit=200_000,
        )
        assert node.engine.broadcast_sync(raw).code == 0
        node.engine.make_block()
    return Services(node.app, node.engine)


def ask(services: Services, name: str, **fields: Any) -> Any:
    method = METHODS[QUERY + name]
    return method.response.FromString(services.call(method.path, method.request(**fields).SerializeToString()).data)


def test_authorizations_are_as_the_granter_wrote_them(services: Services) -> None:
    limited, generic = reversed(ask(services, "Grants", granter=ALICE.address, grantee=BOB).grants)
    if limited.authorization.type_url != SendAuthorization.URL:
        limited, generic = generic, limited
    wrote = to_proto(MADE[0]).value
    assert limited.SerializeToString() in wrote
    assert generic.SerializeToString() in to_proto(MADE[1]).value
    (one,) = ask(services, "Grants", granter=ALICE.address, grantee=BOB, msg_type_url=MsgSend.URL).grants
    assert one == limited
    with pytest.raises(Refusal, match="authorization not found"):
        ask(services, "Grants", granter=ALICE.address, grantee=CAROL, msg_type_url=DELEGATE)


@pytest.mark.parametrize(
    ("name", "field", "address", "count"),
    [("GranterGrants", "granter", ALICE.address, 3), ("GranteeGrants", "grantee", BOB, 2)],
)
def test_lists_in_pages(services: Services, name: str, field: str, address: str, count: int) -> None:
    whole = list(ask(services, name, **{field: address}).grants)
    assert len(whole) == count
    paged, key = [], b""
    for _ in range(count):
        page = ask(services, name, **{field: address}, pagination={"limit": 1, "key": key})
        paged += page.grants
        key = page.pagination.next_key
    assert (paged, key) == (whole, b"")
    assert not ask(services, name, **{field: OPERATOR.address}).grants
    for bad in (b"x", b"a " + b"b" * 300):
        with pytest.raises(Refusal, match="is not a key of this list"):
            ask(services, name, **{field: address}, pagination={"key": bad})

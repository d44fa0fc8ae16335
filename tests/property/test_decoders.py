"""Whatever bytes come from outside, the decoders answer with a value or a Refusal, and never with anything else."""

from typing import Any

import pytest
from cosmpy.protos.cosmos.bank.v1beta1.tx_pb2 import MsgSend as SendProto
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin as CoinProto
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import ModeInfo, SignerInfo, TxBody, TxRaw
from google.protobuf.any_pb2 import Any as AnyProto
from hypothesis import example, given, settings
from hypothesis import strategies as st

from domain.bounds import check
from domain.errors import Refusal
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.messages import Message
from domain.tx import Tx
from tests.support.bad_transactions import field
from tests.support.bounded import values
from wire.keys import Key
from wire.messages import TYPE_URLS, from_bytes, to_proto
from wire.queries import METHODS, QueryMethod, decode_request, decode_response, encode_response
from wire.tx import TxDecoder, build_tx, decode_simulated_tx, decode_tx

KEY = Key(bytes(31) + b"\x01")
OTHER = Key(bytes(31) + b"\x02")
SEND = MsgSend(KEY.address, OTHER.address, (Coin("uassay", 12_345),))


def messages() -> st.SearchStrategy[Message]:
    """Return a strategy for messages of every kind."""
    return st.one_of([values(cls) for _, cls in TYPE_URLS.values()])


TXS = st.builds(
    lambda message, sequence, amount, gas, timeout, memo: build_tx(
        message,
        KEY,
        chain_id="assay-test",
        account_number=3,
        sequence=sequence,
        fee=() if amount is None else (Coin("uassay", amount),),
        gas_limit=gas,
        memo=memo,
        timeout_height=timeout,
    ),
    st.just([SEND]) | st.lists(messages(), min_size=1, max_size=2),
    st.integers(0, 2**64 - 1) | st.integers(0, 300),
    st.none() | st.integers(0, 2**63 - 1),
    st.integers(0, 50_000_000),
    st.integers(0, 2**64 - 1),
    st.sampled_from(["", "", "hello"]),
)


def outcome(decode: Any, raw: bytes) -> Any:
    """Return the value, or the Refusal's parts; anything else that is raised fails the test."""
    try:
        return decode(raw)
    except Refusal as refusal:
        return parts_of(refusal)


def parts_of(refusal: Refusal) -> Any:
    return refusal.code, refusal.field, refusal.reason, refusal.remedy


def mutated(raw: bytes, data: st.DataObject) -> bytes:
    """Return ``raw`` with a few bytes changed, inserted, dropped or doubled."""
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(changed) - 1)))
        kind = data.draw(st.sampled_from(["flip", "insert", "drop", "double", "cut", "append"]))
        if kind == "flip" and changed:
            changed[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "insert":
            changed[at:at] = data.draw(st.binary(min_size=1, max_size=4))
        elif kind == "drop":
            del changed[at : at + data.draw(st.integers(1, 4))]
        elif kind == "double":
            changed += changed[at : at + 40]
        elif kind == "cut":
            del changed[at:]
        else:
            changed += data.draw(st.binary(min_size=1, max_size=8))
    return bytes(changed)


def assert_bounded(tx: Tx) -> None:
    """The state machine does not look at bounds again, so that what is decoded must be within them."""
    assert tx.is_bounded
    for message in tx.messages:
        check(message)


@given(messages())
def test_every_message_comes_back_from_the_wire_as_it_was(message: Message) -> None:
    packed = to_proto(message)
    assert from_bytes(packed.type_url, packed.value) == message


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@settings(max_examples=25)
@given(st.data())
def test_every_query_comes_back_from_the_wire_as_it_was(method: QueryMethod, data: st.DataObject) -> None:
    request = data.draw(values(method.request))
    encoded = method.write_request(request).SerializeToString()
    assert decode_request(method, encoded) == request
    response = data.draw(values(method.response))
    assert decode_response(method, encode_response(method, response)) == response


@given(TXS)
def test_what_clients_build_is_decoded(raw: bytes) -> None:
    tx = decode_tx(raw)
    assert (len(tx.signers), tx.size, tx.signers[0].pub_key) == (1, len(raw), KEY.pub_key)
    assert TxDecoder()(raw) == tx
    assert_bounded(tx)


@settings(max_examples=300)
@given(TXS, st.data())
def test_a_changed_transaction_is_decoded_or_refused_the_same_each_time(raw: bytes, data: st.DataObject) -> None:
    changed = mutated(raw, data)
    decoder = TxDecoder()
    expected = outcome(decode_tx, changed)
    for _ in range(2):
        found = decoder(changed)
        assert (found if isinstance(found, Tx) else parts_of(found)) == expected
    assert decoder.decoded == 1
    if isinstance(expected, Tx):
        assert_bounded(expected)
    outcome(decode_simulated_tx, changed)


@settings(max_examples=300)
@given(st.data())
def test_two_different_encodings_never_give_the_same_content(data: st.DataObject) -> None:
    raw = build_tx([SEND], KEY, chain_id="a", account_number=0, sequence=1, gas_limit=7)
    changed = mutated(raw, data)
    tx, original = outcome(decode_tx, changed), decode_tx(raw)
    if changed != raw and isinstance(tx, Tx):
        assert (tx.messages, tx.signers, tx.fee, tx.gas_limit, tx.memo, tx.timeout_height) != (
            original.messages,
            original.signers,
            original.fee,
            original.gas_limit,
            original.memo,
            original.timeout_height,
        )


@given(st.binary(max_size=400))
@example(b"")
@example(b"\x00")
@example(b"\x0a")
@example(b"\xff" * 11)
def test_random_bytes_are_refused(raw: bytes) -> None:
    refused = outcome(decode_tx, raw)
    assert isinstance(refused, tuple), "nobody finds a transaction by chance"
    assert isinstance(outcome(decode_simulated_tx, raw), tuple)


@given(st.sampled_from(sorted(TYPE_URLS)), st.binary(max_size=200))
def test_random_bytes_of_a_message_give_a_message_or_a_refusal(url: str, value: bytes) -> None:
    outcome(lambda data: from_bytes(url, data), value)


@given(st.sampled_from(sorted(METHODS)), st.binary(max_size=200))
def test_random_bytes_of_a_query_give_a_value_or_a_refusal(path: str, data: bytes) -> None:
    method = METHODS[path]
    outcome(lambda raw: decode_request(method, raw), data)
    outcome(lambda raw: decode_response(method, raw), data)


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 100, 101, 1_000, 10_000])
def test_nested_sign_modes_of_any_depth_are_refused(depth: int) -> None:
    inner = b""  # ModeInfo{multi{mode_infos{multi{…}}}}, written by hand: no library goes so deep
    for _ in range(depth):
        inner = field(2, field(2, inner))
    signer = SignerInfo(mode_info=ModeInfo()).SerializeToString()[:-2] + field(2, inner)
    auth = field(1, signer)
    body = TxBody(messages=[to_proto(SEND)]).SerializeToString()
    raw = TxRaw(body_bytes=body, auth_info_bytes=auth, signatures=[bytes(64)])
    refused = outcome(decode_tx, raw.SerializeToString())
    assert isinstance(refused, tuple)


AMOUNTS = [
    "",
    "-1",
    "+1",
    "01",
    "1e9",
    "1.0",
    " 1",
    "1 ",
    "0x10",
    "1_000",
    "NaN",
    "Infinity",
    "\u0661",
    "\uff11",
    str(2**63),
    str(2**64),
    str(2**128),
    "9" * 5_000,
]


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("where", ["message", "fee"])
def test_amounts_that_are_not_plain_digits_in_range_are_refused(amount: str, where: str) -> None:
    good = CoinProto(denom="uassay", amount="5")
    bad = CoinProto(denom="uassay", amount=amount)
    send = SendProto(
        from_address=KEY.address,
        to_address=OTHER.address,
        amount=[bad if where == "message" else good],
    )
    body = TxBody(messages=[AnyProto(type_url="/cosmos.bank.v1beta1.MsgSend", value=send.SerializeToString())])
    raw = TxRaw.FromString(
        build_tx(
            [SEND],
            KEY,
            chain_id="a",
            account_number=0,
            sequence=0,
            fee=[Coin("uassay", 7)],
            gas_limit=1,
        )
    )
    raw.body_bytes = body.SerializeToString()
    if where == "fee":
        right = CoinProto(denom="uassay", amount="7").SerializeToString()
        wrong = bad.SerializeToString()
        fee = b"\x12" + _length(field(1, wrong) + b"\x10\x01") + field(1, wrong) + b"\x10\x01"
        head = raw.auth_info_bytes[: raw.auth_info_bytes.index(field(1, right)) - 2]
        raw.auth_info_bytes = head + fee
    code, named, _, remedy = outcome(decode_tx, raw.SerializeToString())
    is_number = amount.isascii() and amount.isdigit() and amount == str(int(amount[:78]))
    assert (code.space, code.name) == ("sdk", "insufficient_funds" if is_number else "tx_decode")
    assert (
        named
        == {
            "message": "body.messages[0].amount[0].amount",
            "fee": "auth_info.fee.amount.amount",
        }[where]
    )
    assert remedy


def _length(value: bytes) -> bytes:
    return field(1, value)[1 : -len(value)]

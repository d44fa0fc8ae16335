"""What a transaction must look like: each way of getting it wrong has its code, its field and its remedy."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from cosmpy.protos.cosmos.bank.v1beta1.tx_pb2 import MsgSend as SendProto
from cosmpy.protos.cosmos.crypto.secp256k1.keys_pb2 import PubKey
from cosmpy.protos.cosmos.tx.signing.v1beta1.signing_pb2 import SignMode as ProtoMode
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import AuthInfo, ModeInfo, SignDoc, Tx, TxBody, TxRaw
from google.protobuf.any_pb2 import Any as AnyProto

from domain.errors import Refusal
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.limits import GAS_MAX, MEMO_BYTES_MAX, MESSAGES_MAX, TX_BYTES_MAX
from domain.market.messages import MsgCancelOrder
from domain.tx import SignMode, sign_doc, varint
from wire.canonical import read
from wire.envelope import Envelope
from wire.keys import Key, verify
from wire.messages import from_bytes, to_proto
from wire.tx import (
    build_tx,
    build_unsigned_tx,
    decode_simulated_tx,
    decode_tx,
    raw_of,
    tx_proto,
)

KEY = Key(bytes(31) + b"\x01")
OTHER = Key(bytes(31) + b"\x02")
SEND = MsgSend(KEY.address, OTHER.address, (Coin("uassay", 12_345),))


def built(**changes: Any) -> bytes:
    """Return a good transaction, with changes."""
    values: dict[str, Any] = {
        "chain_id": "assay-test",
        "account_number": 3,
        "sequence": 7,
        "fee": (Coin("uassay", 500),),
        "gas_limit": 100_000,
        "timeout_height": 1_000,
    }
    return build_tx([SEND], KEY, **(values | changes))


def test_a_transfer_is_what_was_built() -> None:
    raw = built(memo="for the coffee ☕")
    tx = decode_tx(raw)
    assert tx.messages == (SEND,)
    assert (tx.memo, tx.timeout_height, tx.gas_limit) == ("for the coffee ☕", 1_000, 100_000)
    assert tx.fee == (Coin("uassay", 500),)
    (signer,) = tx.signers
    assert (signer.pub_key, signer.address, signer.sequence) == (KEY.pub_key, KEY.address, 7)
    assert tx.size == len(raw)
    doc = sign_doc(tx.body, tx.auth_info, "assay-test", 3)
    assert verify(KEY.pub_key, doc, signer.signature)
    assert tx_proto(raw).body.memo == "for the coffee ☕"


def test_a_transfer_can_be_signed_as_amino_json() -> None:
    raw = built(memo="for the coffee ☕", mode=SignMode.AMINO_JSON)
    tx = decode_tx(raw)
    (signer,) = tx.signers
    assert signer.mode is SignMode.AMINO_JSON
    text = tx.document(signer.mode, "assay-test", 3, 7)
    assert verify(KEY.pub_key, text, signer.signature)
    assert json.loads(text) == {
        "account_number": "3",
        "chain_id": "assay-test",
        "fee": {"amount": [{"amount": "500", "denom": "uassay"}], "gas": "100000"},
        "memo": "for the coffee ☕",
        "msgs": [
            {
                "type": "cosmos-sdk/MsgSend",
                "value": {
                    "from_address": KEY.address,
                    "to_address": OTHER.address,
                    "amount": [{"amount": "12345", "denom": "uassay"}],
                },
            }
        ],
        "sequence": "7",
        "timeout_height": "1000",
    }
    assert decode_tx(built(memo="for the coffee ☕")).amino == "", "no text is made for those who sign the bytes"


def test_the_sign_doc_is_protobufs() -> None:
    tx = decode_tx(built())
    for chain_id, number in (("assay-test", 3), ("assay-test", 0), ("a" * 300, 2**63)):
        theirs = SignDoc(
            body_bytes=tx.body,
            auth_info_bytes=tx.auth_info,
            chain_id=chain_id,
            account_number=number,
        )
        assert sign_doc(tx.body, tx.auth_info, chain_id, number) == theirs.SerializeToString()


class Parts:
    """A good transaction as protobuf objects, to be bent."""

    def __init__(self) -> None:
        raw = TxRaw.FromString(built())
        self.body = TxBody.FromString(raw.body_bytes)
        self.auth = AuthInfo.FromString(raw.auth_info_bytes)
        self.signatures = list(raw.signatures)
        self.tail = b""

    def raw(self) -> bytes:
        """Return the bytes."""
        whole = TxRaw(
            body_bytes=self.body.SerializeToString(),
            auth_info_bytes=self.auth.SerializeToString(),
            signatures=self.signatures,
        )
        return bytes(whole.SerializeToString()) + self.tail


def other_key(parts: Parts) -> None:
    parts.auth.signer_infos[0].public_key.CopyFrom(
        AnyProto(
            type_url="/cosmos.crypto.ed25519.PubKey",
            value=PubKey(key=KEY.pub_key).SerializeToString(),
        )
    )


def short_key(parts: Parts) -> None:
    parts.auth.signer_infos[0].public_key.value = PubKey(key=bytes(32)).SerializeToString()


def not_a_point(parts: Parts) -> None:
    value = PubKey(key=b"\x05" + bytes(32)).SerializeToString()
    parts.auth.signer_infos[0].public_key.value = value


def multi(parts: Parts) -> None:
    mode = ModeInfo.Single(mode=ProtoMode.SIGN_MODE_DIRECT)
    inner = ModeInfo.Multi(mode_infos=[ModeInfo(single=mode)])
    parts.auth.signer_infos[0].mode_info.CopyFrom(ModeInfo(multi=inner))


def textual(parts: Parts) -> None:
    parts.auth.signer_infos[0].mode_info.single.mode = ProtoMode.SIGN_MODE_TEXTUAL


def amino_without_key(parts: Parts) -> None:
    parts.auth.signer_infos[0].mode_info.single.mode = ProtoMode.SIGN_MODE_LEGACY_AMINO_JSON
    parts.auth.signer_infos[0].ClearField("public_key")


def change(path: str, value: Any) -> Callable[[Parts], None]:
    """Return the bend that sets an attribute."""

    def bend(parts: Parts) -> None:
        *way, name = path.split(".")
        target: Any = parts
        for step in way:
            target = getattr(target, step)
        setattr(target, name, value)

    return bend


def extend(path: str, value: Any) -> Callable[[Parts], None]:
    """Return the bend that appends to a repeated field (or clears it first, for None)."""

    def bend(parts: Parts) -> None:
        target: Any = parts
        for step in path.split("."):
            target = getattr(target, step)
        if value is None:
            del target[:]
        else:
            target.append(value)

    return bend


def unknown_in_message(parts: Parts) -> None:
    parts.body.messages[0].value += b"\xfa\x01\x01x"


COIN = type(AuthInfo().fee.amount.add())
EXTRA = AnyProto(type_url="/x.Y", value=b"z")
CASES: dict[str, tuple[Callable[[Parts], None], str, str]] = {
    "trailing bytes": (change("tail", b"\x00"), "tx_decode", "tx"),
    "unknown field": (change("tail", b"\x22\x01x"), "tx_decode", "tx"),
    "unknown field in a message": (unknown_in_message, "tx_decode", "body.messages[0]"),
    "signatures after a second body": (change("tail", b"\x0a\x00"), "tx_decode", "tx"),
    "no message": (extend("body.messages", None), "invalid_request", "body.messages"),
    "unknown message": (
        extend("body.messages", EXTRA),
        "unknown_request",
        "body.messages[1].type_url",
    ),
    "memo too long": (
        change("body.memo", "é" * (MEMO_BYTES_MAX // 2) + "e"),
        "memo_too_large",
        "body.memo",
    ),
    "memo with a control character": (change("body.memo", "a\x1bb"), "tx_decode", "body.memo"),
    "unordered": (change("body.unordered", True), "invalid_request", "body.unordered"),
    "time-out by time": (
        lambda parts: parts.body.timeout_timestamp.FromSeconds(1),
        "invalid_request",
        "body.unordered",
    ),
    "extension option": (
        extend("body.extension_options", EXTRA),
        "invalid_request",
        "body.extension_options",
    ),
    "non-critical extension option": (
        extend("body.non_critical_extension_options", EXTRA),
        "invalid_request",
        "body.extension_options",
    ),
    "tip": (lambda parts: parts.auth.tip.SetInParent(), "invalid_request", "auth_info.tip"),
    "no signer": (extend("auth.signer_infos", None), "unauthorized", "auth_info.signer_infos"),
    "no signature": (change("signatures", []), "unauthorized", "auth_info.signer_infos"),
    "two signatures": (
        change("signatures", [bytes(64), bytes(64)]),
        "unauthorized",
        "auth_info.signer_infos",
    ),
    "empty signature": (change("signatures", [b""]), "unauthorized", "signatures"),
    "short signature": (change("signatures", [bytes(63)]), "unauthorized", "signatures"),
    "long signature": (change("signatures", [bytes(65)]), "unauthorized", "signatures"),
    "several keys": (multi, "unauthorized", "auth_info.signer_infos.mode_info"),
    "textual": (textual, "unauthorized", "auth_info.signer_infos.mode_info"),
    "amino without a key": (amino_without_key, "invalid_pubkey", "auth_info.signer_infos.public_key"),
    "other kind of key": (other_key, "invalid_pubkey", "auth_info.signer_infos.public_key"),
    "short key": (short_key, "invalid_pubkey", "auth_info.signer_infos.public_key"),
    "key without parity": (not_a_point, "invalid_pubkey", "public_key"),
    "granter that is no address": (
        change("auth.fee.granter", "me"),
        "invalid_address",
        "auth_info.fee.granter",
    ),
    "payer that is no address": (
        change("auth.fee.payer", "me"),
        "invalid_address",
        "auth_info.fee.payer",
    ),
    "two fees": (
        extend("auth.fee.amount", COIN(denom="uatom", amount="1")),
        "invalid_coins",
        "auth_info.fee.amount",
    ),
    "too much gas": (
        change("auth.fee.gas_limit", GAS_MAX + 1),
        "bad_field",
        "auth_info.fee.gas_limit",
    ),
    "no denomination": (
        lambda parts: setattr(parts.auth.fee.amount[0], "denom", "u assay"),
        "invalid_coins",
        "auth_info.fee.amount.denom",
    ),
}


@pytest.mark.parametrize(("bend", "code", "field"), CASES.values(), ids=CASES)
def test_refused_with_code_field_and_remedy(bend: Callable[[Parts], None], code: str, field: str) -> None:
    parts = Parts()
    assert decode_tx(parts.raw()).messages, "it was good before it was bent"
    bend(parts)
    with pytest.raises(Refusal) as refused:
        decode_tx(parts.raw())
    assert (refused.value.code.name, refused.value.field) == (code, field)
    assert refused.value.remedy


def test_unknown_fields_are_named_wherever_they_are() -> None:
    parts = Parts()
    parts.auth.signer_infos[0].public_key.MergeFromString(b"\xf8\x07\x01")  # field 127
    with pytest.raises(Refusal, match=r"auth_info\.signer_infos\[0\]\.public_key: unknown field 127"):
        decode_tx(parts.raw())


def test_the_cap_comes_before_anything_else() -> None:
    with pytest.raises(Refusal, match=f"tx: has {TX_BYTES_MAX + 1} bytes") as refused:
        decode_tx(built() + bytes(TX_BYTES_MAX + 1 - len(built())))
    assert refused.value.code.name == "tx_too_large"
    with pytest.raises(Refusal) as refused:
        decode_tx(built() + bytes(TX_BYTES_MAX - len(built())))
    assert refused.value.code.name == "tx_decode"
    with pytest.raises(Refusal, match="tx: is empty"):
        decode_tx(b"")


def test_as_many_messages_as_are_allowed_and_not_one_more() -> None:
    for count in (MESSAGES_MAX, MESSAGES_MAX + 1):
        raw = build_tx([SEND] * count, KEY, chain_id="a", account_number=0, sequence=0, gas_limit=1)
        if count > MESSAGES_MAX:
            with pytest.raises(Refusal, match="send 1 to"):
                decode_tx(raw)
        else:
            assert decode_tx(raw).messages == (SEND,) * count


@pytest.mark.parametrize("value", [0, 1, 127, 128, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_numbers_at_their_edges(value: int) -> None:
    tx = decode_tx(built(sequence=value, timeout_height=value))
    assert (tx.signers[0].sequence, tx.timeout_height) == (value, value)


SHAPES = {
    "usual": built(),
    "first transaction": built(sequence=0, timeout_height=0),
    "no fee": built(fee=()),
    "amino": built(mode=SignMode.AMINO_JSON),
    "long numbers": built(sequence=2**40, timeout_height=2**62, gas_limit=GAS_MAX),
    "other message": build_tx(
        [MsgCancelOrder(KEY.address, bytes(range(32)))],
        KEY,
        chain_id="a",
        account_number=0,
        sequence=1,
        gas_limit=9,
    ),
}


def content(raw: bytes) -> Any:
    """Return what the bytes say, or None where they are refused."""
    try:
        tx = decode_tx(raw)
    except Refusal:
        return None
    return tx.messages, tx.signers, tx.fee, tx.gas_limit, tx.memo, tx.timeout_height


@pytest.mark.parametrize("raw", SHAPES.values(), ids=SHAPES)
def test_a_change_of_one_byte_says_something_else_or_is_refused(raw: bytes) -> None:
    said = content(raw)
    assert said is not None
    for at in range(len(raw)):
        for change in (1, -1, 2, 16, 64, 128):
            assert content(raw[:at] + bytes([raw[at] + change & 0xFF]) + raw[at + 1 :]) != said
        assert content(raw[:at]) is None
        assert content(raw[:at] + raw[at + 1 :]) is None
        for extra in (b"\x00", b"1", raw[at : at + 1]):
            assert content(raw[:at] + extra + raw[at:]) is None


def changed_once(raw: bytes) -> Iterator[bytes]:
    """Yield a transaction with each of its bytes changed, dropped and doubled."""
    for at in range(len(raw)):
        for change in (1, -1, 8, 16, 64, 128):
            yield raw[:at] + bytes([raw[at] + change & 0xFF]) + raw[at + 1 :]
        yield raw[:at] + raw[at + 1 :]
        yield raw[: at + 1] + raw[at:]


@pytest.mark.parametrize("raw", SHAPES.values(), ids=SHAPES)
def test_what_is_accepted_is_what_cosmos_reads_in_its_one_encoding(raw: bytes) -> None:
    accepted = 0
    for bent in (raw, *changed_once(raw)):
        try:
            tx = decode_tx(bent)
        except Refusal:
            continue
        accepted += 1
        whole, parts = read(Tx, bent), read(TxRaw, bent)
        assert whole is not None
        assert parts is not None
        assert (tx.body, tx.auth_info) == (parts.body_bytes, parts.auth_info_bytes)
        assert (whole.body.memo, whole.body.timeout_height) == (tx.memo, tx.timeout_height)
        assert not whole.body.unordered
        assert not whole.auth_info.HasField("tip")
        ((info,), (signer,)) = whole.auth_info.signer_infos, tx.signers
        assert info.mode_info.single.mode == signer.mode
        assert info.public_key.value == b"\n\x21" + signer.pub_key
        assert info.sequence == signer.sequence
        assert whole.auth_info.fee.gas_limit == tx.gas_limit
        assert [(coin.denom, int(coin.amount)) for coin in whole.auth_info.fee.amount] == [
            (coin.denom, coin.amount) for coin in tx.fee
        ]
    assert accepted > 100, "a signature is any 64 bytes here"


LEFT_AS_BYTES = {
    "fee, unknown field": ("fee", b"\xf8\x07\x01", "auth_info.fee", "unknown field 127"),
    "fee, a default": ("fee", b"\x1a\x00", "auth_info.fee", "is not the canonical"),
    "key, unknown field": ("public_key", b"\xf8\x07\x01", "public_key", "unknown field 127"),
    "key, a field twice": ("public_key", b"\x0a\x01/", "public_key", "is not the canonical"),
    "mode, unknown field": ("mode_info", b"\xf8\x07\x01", "mode_info", "unknown field 127"),
    "mode, a field twice": ("mode_info", b"\x0a\x02\x08\x01", "auth_info", "is not the canonical"),
    "fee, no protobuf": ("fee", b"\xff", "auth_info.fee", "is not a cosmos"),
    "mode, no protobuf": ("mode_info", b"\xff", "auth_info", "is not a cosmos"),
    "key, no protobuf": ("public_key", b"\xff", "public_key", "is not a google"),
}


@pytest.mark.parametrize(("part", "tail", "field", "reason"), LEFT_AS_BYTES.values(), ids=LEFT_AS_BYTES)
def test_parts_that_are_left_as_bytes_have_one_encoding_too(part: str, tail: bytes, field: str, reason: str) -> None:
    parts = TxRaw.FromString(built())
    seen = Envelope.FromString(built()).auth_info
    holder = seen if part == "fee" else seen.signer_infos[0]
    setattr(holder, part, getattr(holder, part) + tail)
    parts.auth_info_bytes = seen.SerializeToString()
    for decode in (decode_tx, decode_simulated_tx):
        with pytest.raises(Refusal) as refused:
            decode(parts.SerializeToString())
        assert refused.value.code.name == "tx_decode"
        assert refused.value.field.endswith(field)
        assert refused.value.reason.startswith(reason)


def test_a_key_that_is_there_and_empty_is_not_one_that_is_missing() -> None:
    parts = Parts()
    parts.auth.signer_infos[0].ClearField("public_key")
    assert decode_tx(parts.raw()).signers[0].pub_key == b""
    parts.auth.signer_infos[0].public_key.SetInParent()
    with pytest.raises(Refusal) as refused:
        decode_tx(parts.raw())
    assert refused.value.code.name == "invalid_pubkey"


def test_two_lengths_that_lie_together_are_noticed() -> None:
    raw = built()
    said = content(raw)
    end = len(raw) - 64
    for first in range(end):
        for second in range(first + 1, end):
            for change in (1, -1):
                changed = bytearray(raw)
                changed[first] = changed[first] + 1 & 0xFF
                changed[second] = changed[second] + change & 0xFF
                assert content(bytes(changed)) != said


def test_a_varint_that_is_longer_than_it_must_be_is_refused() -> None:
    raw = built()
    at = raw.index(b"\x18\x07", 150)  # the sequence, 7, in auth_info
    parts = TxRaw.FromString(raw)
    inner = parts.auth_info_bytes
    spot = inner.index(b"\x18\x07")
    longer = inner[:spot] + b"\x18\x87\x00" + inner[spot + 2 :]
    assert longer[1] == inner[1]
    parts.auth_info_bytes = longer[:1] + bytes([inner[1] + 1]) + longer[2:]
    assert at
    assert AuthInfo.FromString(parts.auth_info_bytes).signer_infos[0].sequence == 7
    with pytest.raises(Refusal, match="auth_info: is not the canonical encoding"):
        decode_tx(parts.SerializeToString())


def test_a_transfer_whose_length_is_cut_short_is_not_read_by_its_shape() -> None:
    """A long denomination makes the message 131 bytes; that is two bytes of length, and here is one."""
    send = MsgSend(KEY.address, OTHER.address, (Coin("u" * 30, 100),))
    parts = TxRaw.FromString(build_tx([send], KEY, chain_id="a", account_number=0, sequence=0, gas_limit=1))
    body = parts.body_bytes
    at = body.index(b"\x12\x83\x01\n,")
    parts.body_bytes = b"\n" + bytes([body[1] - 1]) + body[2 : at + 2] + body[at + 3 :]
    with pytest.raises(Refusal, match=r"body: is not a cosmos\.tx\.v1beta1\.TxBody"):
        decode_tx(parts.SerializeToString())


@pytest.mark.parametrize(
    ("depth", "code"),
    [
        (1, "unauthorized"),
        (15, "unauthorized"),
        (16, "tx_decode"),
        (48, "tx_decode"),
        (1_000, "tx_decode"),
    ],
)
def test_the_code_of_nested_sign_modes_does_not_depend_on_the_library(depth: int, code: str) -> None:
    nested = ModeInfo(single=ModeInfo.Single(mode=ProtoMode.SIGN_MODE_DIRECT)).SerializeToString()
    for _ in range(depth):
        inner = b"\x12" + varint(len(nested)) + nested
        nested = b"\x12" + varint(len(inner)) + inner
    signer = b"\x12" + varint(len(nested)) + nested
    parts = TxRaw.FromString(built())
    parts.auth_info_bytes = b"\n" + varint(len(signer)) + signer
    with pytest.raises(Refusal) as refused:
        decode_tx(parts.SerializeToString())
    assert refused.value.code.name == code


@pytest.mark.parametrize(
    "auth",
    [
        b"\n\x00" * 17,
        b"\n\x26\x12\x24\x12\x22" + b"\x12\x00" * 17,
    ],
    ids=["signers", "modes"],
)
def test_many_sign_modes_have_one_code_without_a_look_at_each(auth: bytes) -> None:
    assert len(AuthInfo.FromString(auth).signer_infos) in (1, 17)
    parts = TxRaw.FromString(built())
    parts.auth_info_bytes = auth
    with pytest.raises(Refusal, match="has more than 16 sign modes inside or next to each other") as refused:
        decode_tx(parts.SerializeToString())
    assert refused.value.code.name == "tx_decode"


def test_an_unknown_field_far_down_a_list_is_refused_without_a_search() -> None:
    parts = TxRaw.FromString(built())
    parts.body_bytes = b"\n\x00" * 100_000 + b"\n\x03\xf8\x07\x01"
    with pytest.raises(Refusal, match="body: is not the canonical encoding"):
        decode_tx(parts.SerializeToString())


def test_a_key_that_was_left_out_stays_out() -> None:
    parts = Parts()
    parts.auth.signer_infos[0].ClearField("public_key")
    (signer,) = decode_tx(parts.raw()).signers
    assert (signer.pub_key, signer.address) == (b"", "")


def test_a_payer_is_kept() -> None:
    parts = Parts()
    parts.auth.fee.payer = OTHER.address
    assert decode_tx(parts.raw()).fee_payer == OTHER.address


def test_to_simulate_needs_no_signature_and_no_sign_mode() -> None:
    raw = build_unsigned_tx([SEND], KEY.pub_key, sequence=4)
    assert decode_simulated_tx(raw).messages == (SEND,)
    with pytest.raises(Refusal, match="signatures: has 0 bytes"):
        decode_tx(raw)
    parts = Parts()  # as CosmJS simulates
    parts.signatures = [b""]
    parts.auth.signer_infos[0].mode_info.single.mode = ProtoMode.SIGN_MODE_UNSPECIFIED
    parts.auth.fee.Clear()
    assert decode_simulated_tx(parts.raw()).signers[0].sequence == 7
    parts.signatures = [bytes(63)]
    with pytest.raises(Refusal, match="signatures: has 63 bytes"):
        decode_simulated_tx(parts.raw())
    parts = Parts()
    multi(parts)
    with pytest.raises(Refusal, match="SIGN_MODE_DIRECT"):
        decode_simulated_tx(parts.raw())


def test_the_old_form_of_a_simulation_becomes_bytes() -> None:
    raw = built()
    assert raw_of(tx_proto(raw)) == raw


@pytest.mark.parametrize("amount", [2**63, 2**64, 2**128, 2**256 - 1])
@pytest.mark.parametrize("is_fee", [False, True])
def test_more_than_can_exist_is_refused_in_the_words_of_wallets(amount: int, is_fee: bool) -> None:
    parts = Parts()
    if is_fee:
        parts.auth.fee.amount[0].amount = str(amount)
    else:
        send = SendProto.FromString(parts.body.messages[0].value)
        send.amount[0].amount = str(amount)
        parts.body.messages[0].value = send.SerializeToString()
    for decode in (decode_tx, decode_simulated_tx):
        with pytest.raises(Refusal, match=f"{amount} is more than can exist: insufficient funds") as refused:
            decode(parts.raw())
        assert (refused.value.code.space, refused.value.code.number) == ("sdk", 5)


def test_a_transfer_of_several_coins_is_neither_built_nor_read() -> None:
    send = MsgSend(KEY.address, OTHER.address, (Coin("uassay", 1), Coin("uatom", 2)))
    with pytest.raises(Refusal, match=r"^amount: has 2 items; send exactly 1$"):
        to_proto(send)
    proto = SendProto.FromString(to_proto(replace(send, amount=send.amount[:1])).value)
    proto.amount.add(denom="uatom", amount="2")
    with pytest.raises(Refusal, match=r"^m\.amount: has 2 items") as refused:
        from_bytes("/cosmos.bank.v1beta1.MsgSend", proto.SerializeToString(), "m")
    assert refused.value.code.name == "invalid_coins"

"""Amino JSON is the text that Cosmos' own libraries sign, for their messages and by the same rules for this chain's."""

import json
from base64 import b64encode
from importlib import import_module
from typing import Any

import pytest
from cosmpy.protos.cosmos.authz.v1beta1.tx_pb2 import MsgExec
from cosmpy.protos.cosmos.bank.v1beta1.tx_pb2 import MsgSend as SendProto
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin as CoinProto
from cosmpy.protos.cosmos.staking.v1beta1.staking_pb2 import Validator
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import Fee, TxBody
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from domain.errors import Refusal
from domain.tx import amino_doc
from tests.vectors.kinds import path_of
from wire.amino import NAME_MAX, amino_content, amino_name
from wire.messages import TYPE_URLS

# The types of the SDK's cases are known once their modules are imported.
for module in (
    "authz.v1beta1.authz",
    "bank.v1beta1.authz",
    "crypto.ed25519.keys",
    "distribution.v1beta1.tx",
    "feegrant.v1beta1.feegrant",
    "feegrant.v1beta1.tx",
    "gov.v1.tx",
    "slashing.v1beta1.tx",
    "staking.v1beta1.tx",
):
    import_module(f"cosmpy.protos.cosmos.{module}_pb2")

ADDRESS = "assay1zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3tukrvq"
SDK: list[dict[str, str]] = json.loads((path_of("transactions").parent / "amino/sdk.json").read_text(encoding="utf-8"))
EXAMPLES: dict[str, Any] = json.loads(path_of("transactions").read_text(encoding="utf-8"))


def text_of(*packed: AnyProto) -> str:
    """Return the messages of a transaction as text, without the brackets around them."""
    return amino_content(packed, "", b"").partition('"msgs":[')[2][:-1]


def packed(message: Message) -> AnyProto:
    return AnyProto(type_url="/" + message.DESCRIPTOR.full_name, value=message.SerializeToString())


@pytest.mark.parametrize("case", SDK, ids=[f"{at} {case['type_url']}" for at, case in enumerate(SDK)])
def test_messages_of_cosmos_are_written_as_by_the_sdk(case: dict[str, str]) -> None:
    assert text_of(AnyProto(type_url=case["type_url"], value=bytes.fromhex(case["value"]))) == case["text"]


def test_the_signed_text_is_that_of_cosmjs() -> None:
    send = SendProto(from_address=ADDRESS, to_address="assay1", amount=[CoinProto(denom="uassay", amount="12345")])
    fee = Fee(amount=[CoinProto(denom="uassay", amount="500")], gas_limit=100_000, payer="assay1p")
    content = amino_content([packed(send)], 'a <b> & "c" é☕', fee.SerializeToString())
    assert amino_doc(content, "assay-test", 3, 7, 1000).decode() == (
        '{"account_number":"3","chain_id":"assay-test","fee":{"amount":[{"amount":"500","denom":"uassay"}],'
        '"gas":"100000","payer":"assay1p"},"memo":"a \\u003cb\\u003e \\u0026 \\"c\\" é☕","msgs":[{"type":'
        '"cosmos-sdk/MsgSend","value":{"amount":[{"amount":"12345","denom":"uassay"}],"from_address":'
        '"assay1zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3tukrvq","to_address":"assay1"}}],"sequence":"7",'
        '"timeout_height":"1000"}'
    )
    assert amino_doc(amino_content([packed(send)], "", b""), "assay-test", 0, 0, 0).decode() == (
        '{"account_number":"0","chain_id":"assay-test","fee":{"amount":[],"gas":"0"},"memo":"","msgs":[{"type":'
        '"cosmos-sdk/MsgSend","value":{"amount":[{"amount":"12345","denom":"uassay"}],"from_address":'
        '"assay1zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3tukrvq","to_address":"assay1"}}],"sequence":"0"}'
    )


def test_a_granter_is_in_the_text() -> None:
    assert '"gas":"0","granter":"assay1g"}' in amino_content([], "", Fee(granter="assay1g").SerializeToString())


def test_every_message_has_a_name_of_its_own_that_a_ledger_shows() -> None:
    names = {url: amino_name(proto.DESCRIPTOR) for url, (proto, _) in TYPE_URLS.items()}
    assert len(set(names.values())) == len(names)
    long = [name for name in names.values() if len(name) > NAME_MAX]
    assert long == ["/cosmos.feegrant.v1beta1.MsgPruneAllowances"]  # the Cosmos SDK gave it no name
    assert names["/assay.market.v1.MsgSubmitOrder"] == "assay/MsgSubmitOrder"
    assert names["/cosmos.bank.v1beta1.MsgSend"] == "cosmos-sdk/MsgSend"


def test_a_message_without_a_name_has_its_type_url() -> None:
    assert amino_name(Validator.DESCRIPTOR) == "/cosmos.staking.v1beta1.Validator"


def expected(message: Message) -> dict[str, Any]:
    """Return a message of this chain as an object, by a second and slower reading of the rules."""
    shown: dict[str, Any] = {}
    for field, value in message.ListFields():  # fields that are not empty
        items = value if field.label == FieldDescriptor.LABEL_REPEATED else [value]
        written: list[Any] = []
        for item in items:
            if isinstance(item, Message):
                written.append(expected(item))
            elif isinstance(item, bytes):
                written.append(b64encode(item).decode())
            elif field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_INT64):
                written.append(str(item))
            else:
                written.append(item)
        shown[field.name] = written if field.label == FieldDescriptor.LABEL_REPEATED else written[0]
    return shown


@pytest.mark.parametrize("url", [url for url in EXAMPLES if url.startswith("/assay.")])
def test_messages_of_this_chain_follow_the_same_rules(url: str) -> None:
    (packed_message,) = TxBody.FromString(bytes.fromhex(EXAMPLES[url]["body"])).messages
    proto, cls = TYPE_URLS[url]
    assert json.loads(text_of(packed_message)) == {
        "type": f"assay/{cls.__name__}",
        "value": expected(proto.FromString(packed_message.value)),
    }


def test_messages_inside_messages_are_bounded() -> None:
    inner = packed(SendProto(from_address=ADDRESS))
    for _ in range(8):
        inner = packed(MsgExec(grantee=ADDRESS, msgs=[inner]))
    assert text_of(inner).count("cosmos-sdk/MsgExec") == 8
    for _ in range(5_000):
        inner = packed(MsgExec(grantee=ADDRESS, msgs=[inner]))
    with pytest.raises(Refusal, match="has too many messages inside each other; use at most 8"):
        text_of(inner)


@pytest.mark.parametrize(
    "wrong", [AnyProto(type_url="/x.Y"), AnyProto(type_url="/cosmos.bank.v1beta1.MsgSend", value=b"\xff")]
)
def test_what_is_no_message_is_refused(wrong: AnyProto) -> None:
    with pytest.raises(Refusal, match="is unknown, or is not encoded as protobuf"):
        text_of(packed(MsgExec(msgs=[wrong])))

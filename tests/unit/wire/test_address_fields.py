"""Every field of a message that holds an address holds nothing else, wherever it lies in the message."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import TxBody
from google.protobuf.message import Message

from domain.errors import Refusal
from tests.vectors.kinds import path_of
from wire.messages import TYPE_URLS, from_bytes

EXAMPLES: dict[str, Any] = json.loads(path_of("transactions").read_text(encoding="utf-8"))


def parse(url: str) -> Message:
    """Return the example of a type of message, as protobuf."""
    (packed,) = TxBody.FromString(bytes.fromhex(EXAMPLES[url]["body"])).messages
    proto, _ = TYPE_URLS[url]
    message: Message = proto.FromString(packed.value)
    return message


def addresses(message: Message, path: str = "") -> Iterator[tuple[str, Message, str]]:
    """Yield where in a message there are addresses: the path, the part, and its field's name."""
    for field, value in message.ListFields():
        where = f"{path}.{field.name}" if path else field.name
        if isinstance(value, str) and value.startswith(("assay1", "assayvaloper1")):
            yield where, message, field.name
        elif isinstance(value, Message):
            yield from addresses(value, where)
        elif field.type == field.TYPE_MESSAGE:
            for index, item in enumerate(value):
                yield from addresses(item, f"{where}[{index}]")


MAY_BE_EMPTY = [("/cosmos.staking.v1beta1.MsgCreateValidator", "delegator_address")]
CASES = [(url, path) for url in EXAMPLES for path, _, _ in addresses(parse(url))]


@pytest.mark.parametrize(("url", "path"), CASES)
@pytest.mark.parametrize("text", ["", "nobody", "cosmos1zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3pe2ulk"])
def test_what_is_no_address_is_refused(url: str, path: str, text: str) -> None:
    message = parse(url)
    ((part, name),) = [(part, name) for at, part, name in addresses(message) if at == path]
    from_bytes(url, message.SerializeToString())
    setattr(part, name, text)
    if not text and (url, path) in MAY_BE_EMPTY:
        from_bytes(url, message.SerializeToString())
        return
    with pytest.raises(Refusal) as refused:
        from_bytes(url, message.SerializeToString())
    assert refused.value.field.endswith(path)


def test_every_signer_is_an_address() -> None:
    signers = {(url, cls.SIGNER) for url, (_, cls) in TYPE_URLS.items()}
    assert signers <= set(CASES)
    assert ("/cosmos.bank.v1beta1.MsgSend", "to_address") in CASES
    assert ("/assay.pol.v1.MsgCommitTraces", "shares[0].claim.provider") in CASES

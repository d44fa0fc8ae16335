"""Results of transactions in the forms that Cosmos clients read: ``TxMsgData``, ``TxResponse``, events of ABCI.

The module also writes and reads the code of a refusal in the metadata of a gRPC status.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from cosmpy.protos.cosmos.base.abci.v1beta1.abci_pb2 import TxMsgData, TxResponse
from cosmpy.protos.cosmos.base.v1beta1.coin_pb2 import Coin
from cosmpy.protos.tendermint.abci.types_pb2 import Event as EventProto
from cosmpy.protos.tendermint.abci.types_pb2 import EventAttribute
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.timestamp_pb2 import Timestamp

from domain.block import TxResult
from domain.errors import Code
from domain.events import Event
from domain.genesis import DENOM
from domain.messages import Message, inner_of
from wire.messages import response_class

_CODE_KEY = "assay-code"
_CODESPACE_KEY = "assay-codespace"


def tx_data(messages: Sequence[Message], result: TxResult) -> bytes:
    """Return the ``data`` of a transaction's result: one response per message, with what it answers.

    The data is empty if the transaction failed. ``result`` has these values in the order of the messages.
    """
    if result.code:
        return b""
    values = list(result.responses)
    answers = []
    for message in messages:
        response = _response(message, values)
        url = "/" + response.DESCRIPTOR.full_name
        answers.append(AnyProto(type_url=url, value=response.SerializeToString()))
    data: bytes = TxMsgData(msg_responses=answers).SerializeToString()
    return data


def _response(message: Message, values: list[tuple[str, bytes]]) -> Any:
    """Return the response of a message, and take its values from ``values``.

    If the message applied others inside it, its response has their responses.
    """
    response = response_class(message)()
    fields = {field.name: field for field in response.DESCRIPTOR.fields}
    if "results" in fields:
        response.results.extend(_response(inner, values).SerializeToString() for inner in inner_of(message))
    while values and (field := fields.pop(values[0][0], None)) is not None:
        _set(response, field, values.pop(0)[1])
    return response


def _set(response: Any, field: Any, value: bytes) -> None:
    """Set a field of a response: an id, a number, a time in nanoseconds, or an amount of coins, also as the only one of
    a list.
    """
    number = int.from_bytes(value, "big")
    if field.type == FieldDescriptor.TYPE_BYTES:
        setattr(response, field.name, value)
    elif field.type != FieldDescriptor.TYPE_MESSAGE:
        setattr(response, field.name, number)
    elif field.message_type.full_name == Timestamp.DESCRIPTOR.full_name:
        seconds, nanos = divmod(number, 10**9)
        getattr(response, field.name).CopyFrom(Timestamp(seconds=seconds, nanos=nanos))
    else:
        coin = Coin(denom=DENOM, amount=str(number))
        if field.label == FieldDescriptor.LABEL_REPEATED:
            getattr(response, field.name).append(coin)
        else:
            getattr(response, field.name).CopyFrom(coin)


def events_proto(events: Sequence[Event]) -> list[Any]:
    """Return events in ABCI's form, with every attribute indexed."""
    return [
        EventProto(
            type=event.type,
            attributes=[EventAttribute(key=key, value=value, index=True) for key, value in event.attributes],
        )
        for event in events
    ]


def tx_response(
    tx_hash: bytes,
    height: int,
    time_ns: int,
    messages: Sequence[Message],
    result: TxResult,
    tx: Any,
) -> Any:
    """Return the ``TxResponse`` of a committed transaction; ``tx`` is its protobuf ``Tx``."""
    packed = AnyProto(type_url="/cosmos.tx.v1beta1.Tx", value=tx.SerializeToString())
    return TxResponse(
        height=height,
        txhash=tx_hash.hex().upper(),
        codespace=result.codespace,
        code=result.code,
        data=tx_data(messages, result).hex().upper(),
        raw_log=result.log,
        gas_wanted=result.gas_wanted,
        gas_used=result.gas_used,
        tx=packed,
        timestamp=timestamp(time_ns),
        events=events_proto(result.events),
    )


def timestamp(time_ns: int) -> str:
    """Return a time as ISO 8601 in UTC, cut to seconds, in the form of the Cosmos SDK."""
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def code_metadata(code: Code) -> tuple[tuple[str, str], ...]:
    """Return the gRPC metadata that carries a refusal's code; :func:`read_code` reads it."""
    return (_CODESPACE_KEY, code.space), (_CODE_KEY, str(code.number))


def read_code(metadata: Iterable[tuple[str, str | bytes]]) -> tuple[str, int] | None:
    """Return the codespace and number of the refusal in gRPC metadata, or None if the metadata has no refusal."""
    entries = dict(metadata)
    number = str(entries.get(_CODE_KEY, ""))
    if not (number.isascii() and number.isdigit()):
        return None
    return str(entries.get(_CODESPACE_KEY, "")), int(number)

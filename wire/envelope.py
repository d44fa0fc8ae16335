"""What lies around the messages of a transaction, as protobuf reads it for us: a view of ``cosmos.tx.v1beta1.Tx``.

The view has the fields that this chain gives a meaning to, and leaves what is the same in most of an account's
transactions (key, sign mode, fee) as bytes, which can be looked up instead of read again. Protobuf encodes a part as it
encodes such bytes. So what is canonical as an :data:`Envelope`, with canonical parts in the bytes that it leaves, is
canonical as a ``Tx``; and whatever else a ``Tx`` may have is an unknown field here.
"""

from typing import Any, Final

from cosmpy.protos.cosmos.tx.v1beta1.tx_pb2 import AuthInfo, SignerInfo, Tx, TxBody
from google.protobuf.any_pb2 import Any as AnyProto
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "assay.wire"
_AS_IT_IS: Final = ""
_AS_BYTES: Final = "bytes"


def _envelope() -> Any:
    file = FileDescriptorProto(name="assay/wire/envelope.proto", package=_PACKAGE, syntax="proto3")
    _add(file, AnyProto, type_url=_AS_IT_IS, value=_AS_IT_IS)
    _add(file, TxBody, messages="Any", memo=_AS_IT_IS, timeout_height=_AS_IT_IS)
    _add(file, SignerInfo, public_key=_AS_BYTES, mode_info=_AS_BYTES, sequence=_AS_IT_IS)
    _add(file, AuthInfo, signer_infos="SignerInfo", fee=_AS_BYTES)
    _add(file, Tx, body="TxBody", auth_info="AuthInfo", signatures=_AS_IT_IS)
    # In a pool of its own: what others read is what Cosmos says.
    pool: Any = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Tx"))


def _add(file: Any, cls: Any, **kept: str) -> None:
    """Add the view of a message: the fields to keep, each with how, or with the view that it has."""
    whole = DescriptorProto()
    cls.DESCRIPTOR.CopyToProto(whole)
    view = file.message_type.add(name=whole.name)
    for field in whole.field:
        how = kept.get(field.name)
        if how is None:
            continue
        if how == _AS_BYTES:
            field.type = FieldDescriptorProto.TYPE_BYTES
            field.ClearField("type_name")
            # A part that is there and empty is not one that is missing.
            field.proto3_optional = True
            field.oneof_index = len(view.oneof_decl)
            view.oneof_decl.add(name=f"_{field.name}")
        elif how != _AS_IT_IS:
            field.type_name = f".{_PACKAGE}.{how}"
        view.field.add().CopyFrom(field)


Envelope: Final = _envelope()
"""The protobuf class."""

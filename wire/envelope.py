"""The parts of a transaction around its messages, as a view of ``cosmos.tx.v1beta1.Tx``.

The view has only the fields that this chain uses. Some parts are the same in most transactions of an account: the key,
the sign mode and the fee. The view leaves these parts as bytes, so that they can be looked up in a cache instead of
parsed again.

In protobuf, a nested message and a field with the message's bytes have the same encoding. So bytes are canonical as a
``Tx`` if two conditions hold: they are canonical as an :data:`Envelope`, and the parts that the view leaves as bytes
are canonical. Any other field of a ``Tx`` is an unknown field of the view.
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
_UNCHANGED: Final = ""
_AS_BYTES: Final = "bytes"


def _envelope() -> Any:
    file = FileDescriptorProto(name="assay/wire/envelope.proto", package=_PACKAGE, syntax="proto3")
    _add(file, AnyProto, type_url=_UNCHANGED, value=_UNCHANGED)
    _add(file, TxBody, messages="Any", memo=_UNCHANGED, timeout_height=_UNCHANGED)
    _add(file, SignerInfo, public_key=_AS_BYTES, mode_info=_AS_BYTES, sequence=_UNCHANGED)
    _add(file, AuthInfo, signer_infos="SignerInfo", fee=_AS_BYTES)
    _add(file, Tx, body="TxBody", auth_info="AuthInfo", signatures=_UNCHANGED)
    # The view has a descriptor pool of its own, which keeps it apart from the classes of Cosmos.
    pool: Any = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Tx"))


def _add(file: Any, cls: Any, **fields: str) -> None:
    """Add to ``file`` a view of the message ``cls`` that has only ``fields``.

    The value of each of ``fields`` is the form in which the view keeps the field: unchanged, as bytes, or as the view
    with this name.
    """
    whole = DescriptorProto()
    cls.DESCRIPTOR.CopyToProto(whole)
    view = file.message_type.add(name=whole.name)
    for field in whole.field:
        how = fields.get(field.name)
        if how is None:
            continue
        if how == _AS_BYTES:
            field.type = FieldDescriptorProto.TYPE_BYTES
            field.ClearField("type_name")
            # An empty part must be distinguishable from a missing one.
            field.proto3_optional = True
            field.oneof_index = len(view.oneof_decl)
            view.oneof_decl.add(name=f"_{field.name}")
        elif how != _UNCHANGED:
            field.type_name = f".{_PACKAGE}.{how}"
        view.field.add().CopyFrom(field)


Envelope: Final = _envelope()
"""The protobuf class of the view."""

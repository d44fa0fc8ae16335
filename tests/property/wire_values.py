"""Strategies for domain values, made from type hints: what a field's name says decides what fits in it."""

from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

from domain.messages import Message
from wire.address import to_bech32
from wire.kinds import ADDRESSES, DECIMALS, MAY_BE_BLANK, size_of
from wire.messages import TYPE_URLS

ADDRESS = st.binary(min_size=20, max_size=20).map(to_bech32)
TEXT = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S")) | st.just(" "), max_size=20
).filter(lambda text: "\ufffc" not in text and "\ufffd" not in text)
_RANGES = {
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
}


@cache
def values(hint: Any, descriptor: Any, blank: bool) -> st.SearchStrategy[Any]:
    """Return a strategy for a record or a tuple that mirrors ``descriptor``."""
    if get_origin(hint) is tuple:
        pairs = zip(get_args(hint), descriptor.fields, strict=True)
        return st.tuples(*[_field(part, field, blank) for part, field in pairs])
    assert isinstance(hint, type)
    assert is_dataclass(hint)
    hints = get_type_hints(hint)
    return st.builds(
        hint,
        *[
            _field(hints[field.name], descriptor.fields_by_name[field.name], blank)
            for field in fields(hint)
        ],
    )


def _field(hint: Any, field: Any, blank: bool) -> st.SearchStrategy[Any]:
    if get_origin(hint) is UnionType:
        (inner,) = [arg for arg in get_args(hint) if arg is not NoneType]
        return st.none() | _field(inner, field, blank)
    if get_origin(hint) is tuple and get_args(hint)[1:] == (Ellipsis,):
        return st.lists(_item(get_args(hint)[0], field, blank), max_size=3).map(tuple)
    return _item(hint, field, blank)


def _item(hint: Any, field: Any, blank: bool) -> st.SearchStrategy[Any]:
    name = field.name
    if field.message_type is not None:
        return values(hint, field.message_type, blank)
    if field.enum_type is not None:
        if isinstance(hint, type) and issubclass(hint, IntEnum):
            return st.sampled_from(hint)
        return st.sampled_from([value.number for value in field.enum_type.values])
    if hint is bool:
        return st.booleans()
    if hint is int and name in DECIMALS and field.type == field.TYPE_STRING:
        return st.integers(0, DECIMALS[name])
    if hint is int:
        return st.integers(*_RANGES[field.cpp_type])
    if hint is str and name == "denom":
        return st.from_regex(r"[a-zA-Z][a-zA-Z0-9/:._-]{2,12}", fullmatch=True)
    if hint is str and name in ADDRESSES:
        return ADDRESS | st.just("") if blank else ADDRESS
    if hint is str:
        return TEXT
    assert hint is bytes
    size = size_of(name)
    if size is None:
        return st.binary(max_size=50)
    exact = st.binary(min_size=size, max_size=size)
    may_be_blank = blank or (field.containing_type.name, name) in MAY_BE_BLANK
    return exact | st.just(b"") if may_be_blank else exact


def messages() -> st.SearchStrategy[Message]:
    """Return a strategy for messages of every kind."""
    return st.one_of([values(cls, proto.DESCRIPTOR, False) for proto, cls in TYPE_URLS.values()])

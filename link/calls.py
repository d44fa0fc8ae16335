"""The calls between owners: their requests, their replies, the roles that may make them, and their encoding.

Each type has the name of its message in ``assay.cluster.v1``, and :mod:`wire.convert` converts it. A receiver gets
either a value within its bounds or a ClusterError that names the field.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

from google.protobuf.message import DecodeError

from assay.cluster.v1 import cluster_pb2 as pb
from domain.bounds import Mismatch
from domain.errors import Refusal
from link.errors import ClusterError, ClusterErrorKind
from wire.canonical import parse
from wire.convert import reader, writer

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")

SERVICE = "assay.cluster.v1.Cluster"
_METHODS = pb.DESCRIPTOR.services_by_name["Cluster"].methods_by_name


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, R]):
    """A call, under its name in the protobuf service.

    Callers with one of ``roles`` may make it; if ``roles`` is empty, any signer may. A request of more than ``size``
    bytes is refused before it is parsed.
    """

    name: str
    request: type[Q]
    reply: type[R]
    roles: frozenset[IntEnum]
    size: int = 1_024

    def __post_init__(self) -> None:
        """Compile the converters; Mismatch if the types do not fit the protobuf messages."""
        if _METHODS[self.name].output_type.name != self.reply.__name__:
            raise Mismatch(f"{self.name} does not answer with a {self.reply.__name__}")
        types: tuple[Any, ...] = (self.request, self.reply)
        for cls in types:
            writer(cls, _proto(cls).DESCRIPTOR)

    @property
    def handler(self) -> str:
        """The name of the method of :class:`link.types.Handlers` that answers the call."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()


def encode(value: object) -> bytes:
    """Return the protobuf bytes of a value. A value out of its bounds is a bug and raises a Refusal."""
    cls: Any = type(value)
    data: bytes = writer(cls, _proto(cls).DESCRIPTOR)(value).SerializeToString()
    return data


def decode(cls: type[T], data: bytes) -> T:
    """Return the ``cls`` value that ``data`` encodes.

    ClusterError BAD_REQUEST names the field at fault, even if the field is unknown.
    """
    value: T = _read(cls, lambda: parse(_proto(cls), data, ""))
    return value


def decode_newer(cls: type[T], data: bytes) -> T:
    """Return the ``cls`` value that ``data`` encodes; unknown fields are ignored, because the sender may be newer."""
    value: T = _read(cls, lambda: _proto(cls).FromString(data))
    return value


def _read(cls: Any, parsed: Callable[[], Any]) -> Any:
    try:
        return reader(cls, _proto(cls).DESCRIPTOR)(parsed())
    except DecodeError:
        reason, remedy = f"is not a {cls.__name__}", f"encode a {cls.__name__} as protobuf"
        raise ClusterError(ClusterErrorKind.BAD_REQUEST, reason, remedy) from None
    except Refusal as refusal:
        raise ClusterError(ClusterErrorKind.BAD_REQUEST, refusal.reason, refusal.remedy, field=refusal.field) from None


def _proto(cls: type) -> Any:
    return getattr(pb, cls.__name__)

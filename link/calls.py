"""The calls between owners: what is asked, what is answered, who may ask, and the way to bytes and back.

Types have the names of their messages in ``assay.cluster.v1`` and go over the wire by :mod:`wire.convert`. Whoever
reads what somebody else sent gets a value within its bounds or a ClusterError that names the field.
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
    """A call by the name that it has in the protobuf service; ``roles`` may make it (none: anybody who signs).

    A request of more than ``size`` bytes is refused before anything of it is looked at.
    """

    name: str
    request: type[Q]
    reply: type[R]
    roles: frozenset[IntEnum]
    size: int = 1_024

    def __post_init__(self) -> None:
        """Compile the ways to bytes; Mismatch where the types do not fit the protobuf messages."""
        if _METHODS[self.name].output_type.name != self.reply.__name__:
            raise Mismatch(f"{self.name} does not answer with a {self.reply.__name__}")
        types: tuple[Any, ...] = (self.request, self.reply)
        for cls in types:
            writer(cls, _proto(cls).DESCRIPTOR)

    @property
    def handler(self) -> str:
        """Which attribute of :class:`link.types.Handlers` answers."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()


def encode(value: object) -> bytes:
    """Return the bytes of a value of the link; a Refusal (a bug of ours) names a field out of its bounds."""
    cls: Any = type(value)
    data: bytes = writer(cls, _proto(cls).DESCRIPTOR)(value).SerializeToString()
    return data


def decode(cls: type[T], data: bytes) -> T:
    """Return the ``cls`` in ``data``; ClusterError(BAD_REQUEST) names the field, also one that is not known."""
    value: T = _read(cls, lambda: parse(_proto(cls), data, ""))
    return value


def decode_newer(cls: type[T], data: bytes) -> T:
    """Do as :func:`decode`, but let fields pass that are not known: who sent them may be newer."""
    value: T = _read(cls, lambda: _proto(cls).FromString(data))
    return value


def _read(cls: Any, parsed: Callable[[], Any]) -> Any:
    try:
        return reader(cls, _proto(cls).DESCRIPTOR)(parsed())
    except DecodeError:
        reason, remedy = f"not a {cls.__name__}", "send protobuf of that message"
        raise ClusterError(ClusterErrorKind.BAD_REQUEST, reason, remedy) from None
    except Refusal as refusal:
        raise ClusterError(ClusterErrorKind.BAD_REQUEST, refusal.reason, refusal.remedy, field=refusal.field) from None


def _proto(cls: type) -> Any:
    return getattr(pb, cls.__name__)

"""gRPC reflection, by which tools such as grpcurl list and call the services of a node.

grpcio-reflection has only the version v1alpha. The version v1 has the same messages in another package, so one servicer
answers both.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import ReflectionServicer

from domain.errors import TX_DECODE, Refusal
from wire.canonical import UNREADABLE

_V1ALPHA: Final = "grpc.reflection.v1alpha"
_V1: Final = "grpc.reflection.v1"
_SERVICE: Final = "ServerReflection"
PATHS: Final = tuple(f"/{package}.{_SERVICE}/ServerReflectionInfo" for package in (_V1, _V1ALPHA))
REQUESTS_MAX: Final = 1_000
"""Largest number of requests in one stream."""
REQUEST_BYTES_MAX: Final = 1_024


class Reflection:
    """The answers about a list of services."""

    def __init__(self, services: Iterable[str]) -> None:
        """Answer about the services with these full names, and about reflection itself."""
        _add_v1()
        names = {*services, f"{_V1}.{_SERVICE}", f"{_V1ALPHA}.{_SERVICE}"}
        self._servicer: Any = ReflectionServicer(names)

    def answer(self, requests: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the answer to each request of a stream; raise a Refusal for bytes that are not a request."""
        for data in islice(requests, REQUESTS_MAX):
            if len(data) > REQUEST_BYTES_MAX:
                yield _not_found()
                continue
            try:
                request = reflection_pb2.ServerReflectionRequest.FromString(data)
            except UNREADABLE:
                remedy = "encode it as protobuf"
                raise Refusal(TX_DECODE, "request", "is not a ServerReflectionRequest", remedy) from None
            for response in self._servicer.ServerReflectionInfo(iter((request,)), None):
                yield response.SerializeToString()


def _not_found() -> bytes:
    error = reflection_pb2.ErrorResponse(error_code=5, error_message=b"the name is too long")
    data: bytes = reflection_pb2.ServerReflectionResponse(error_response=error).SerializeToString()
    return data


def _add_v1() -> None:
    """Add the messages of v1 to the pool of descriptors, so that reflection describes itself."""
    copy = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(copy)
    copy.package, copy.name = _V1, "grpc/reflection/v1/reflection.proto"
    for message in copy.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace(_V1ALPHA, _V1)
    for service in copy.service:
        for method in service.method:
            method.input_type = method.input_type.replace(_V1ALPHA, _V1)
            method.output_type = method.output_type.replace(_V1ALPHA, _V1)
    pool: Any = descriptor_pool.Default()  # type: ignore[no-untyped-call]
    pool.AddSerializedFile(copy.SerializeToString())

"""The conversion of this chain's queries between protobuf and domain classes, by gRPC path.

The gRPC server, the ABCI query and the client use this one table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from google.protobuf.message_factory import GetMessageClass

from domain.errors import TX_DECODE, Refusal
from domain.queries import Query
from domain.vocabulary import COMPONENTS, QUERIES
from wire.canonical import UNREADABLE, parse
from wire.convert import reader, writer
from wire.modules import descriptors


@dataclass(frozen=True, slots=True)
class QueryMethod:
    """One query: its gRPC path, its protobuf and domain classes, and the functions that convert between them."""

    path: str
    service: Any  # protobuf descriptor
    name: str
    request_proto: Any
    request: type
    response_proto: Any
    response: type
    read_request: Callable[[Any], Query[Any]]
    write_request: Callable[[Query[Any]], Any]
    read_response: Callable[[Any], Any]
    write_response: Callable[[Any], Any]


def _method(service: Any, method: Any) -> QueryMethod:
    request: Any = QUERIES[method.input_type.name]
    (response,) = get_args(request.__orig_bases__[0])
    return QueryMethod(
        path=f"/{service.full_name}/{method.name}",
        service=service,
        name=method.name,
        request_proto=GetMessageClass(method.input_type),
        request=request,
        response_proto=GetMessageClass(method.output_type),
        response=response,
        read_request=reader(request, method.input_type),
        write_request=writer(request, method.input_type),
        read_response=reader(response, method.output_type),
        write_response=writer(response, method.output_type),
    )


def _methods(*, streams: bool) -> dict[str, QueryMethod]:
    """Return the methods of the components' query services by path: those with one answer, or the streams."""
    found: dict[str, QueryMethod] = {}
    for file in descriptors("query_pb2", (words.query_packages for words in COMPONENTS)):
        service = file.services_by_name["Query"]
        for method in service.methods:
            if method.server_streaming == streams:
                entry = _method(service, method)
                found[entry.path] = entry
    return found


METHODS: dict[str, QueryMethod] = _methods(streams=False)
STREAMS: dict[str, QueryMethod] = _methods(streams=True)
"""Methods that answer with a stream. Their requests are those of a method with one answer."""
_BY_REQUEST: dict[type, QueryMethod] = {method.request: method for method in METHODS.values()}


def method_of(request: Query[Any]) -> QueryMethod:
    """Return the entry of :data:`METHODS` for the query with this request."""
    return _BY_REQUEST[type(request)]


def decode_request(method: QueryMethod, data: bytes) -> Query[Any]:
    """Return the domain request that ``data`` encodes. A Refusal names the field at fault, even an unknown one."""
    return method.read_request(parse(method.request_proto, data, "request"))


def encode_request(request: Query[Any]) -> bytes:
    """Return the protobuf bytes of a domain request."""
    data: bytes = method_of(request).write_request(request).SerializeToString()
    return data


def encode_response(method: QueryMethod, response: object) -> bytes:
    """Return the protobuf bytes of a domain response to the query ``method``."""
    data: bytes = method.write_response(response).SerializeToString()
    return data


def decode_response(method: QueryMethod, data: bytes) -> Any:
    """Return the domain response that ``data`` encodes.

    Unknown fields are ignored, because the node may be newer than this program.
    """
    try:
        message = method.response_proto.FromString(data)
    except UNREADABLE:
        raise Refusal(TX_DECODE, "response", "is not an answer to this query") from None
    return method.read_response(message)

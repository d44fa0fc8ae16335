"""The OpenAPI document of the gateway, made from its routes and the descriptors of their messages."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from chain.app.interfaces import SOFTWARE_VERSION
from chain.app.rest.routes import RestRoute

_DEPTH_MAX: Final = 2
"""Depth of the fields of messages that a GET request has as parameters, such as ``pagination.limit``."""
_WELL_KNOWN: Final[dict[str, dict[str, Any]]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "description": "Seconds, such as 3.5s."},
    "google.protobuf.Any": {
        "type": "object",
        "properties": {"@type": {"type": "string"}},
        "additionalProperties": True,
    },
}
_SCALARS: Final[dict[int, dict[str, Any]]] = {
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.CPPTYPE_UINT32: {"type": "integer", "format": "int64"},
    FieldDescriptor.CPPTYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.CPPTYPE_UINT64: {"type": "string", "format": "uint64"},
    FieldDescriptor.CPPTYPE_FLOAT: {"type": "number"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"type": "number"},
}
_ERROR: Final = {
    "description": "The request is refused, or the node cannot answer it.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "code": {"type": "integer", "description": "Number of the gRPC status."},
                    "message": {"type": "string"},
                    "details": {"type": "array", "items": {}},
                },
            }
        }
    },
}
_HEIGHT: Final = {
    "name": "x-cosmos-block-height",
    "in": "header",
    "description": "Height of the state to read; by default the newest. The answer has the same header.",
    "schema": {"type": "string", "format": "int64"},
}


def make_document(routes: Iterable[RestRoute]) -> dict[str, Any]:
    """Return the document of all routes."""
    schemas: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = route.path.replace("=**}", "}")
        paths.setdefault(path, {})[route.verb.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Assay",
            "version": SOFTWARE_VERSION,
            "description": "Queries and transactions of an Assay node, in the JSON of the Cosmos SDK.",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(route: RestRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    service, name = route.method.path.strip("/").split("/")
    request, response = route.method.request.DESCRIPTOR, route.method.response.DESCRIPTOR
    in_path = set(route.fields)
    parameters = [
        {"name": field, "in": "path", "required": True, "schema": {"type": "string"}} for field in route.fields
    ]
    operation: dict[str, Any] = {
        "operationId": f"{service}.{name}.{route.verb.lower()}",
        "tags": [service],
        "responses": {
            "200": {
                "description": "The answer.",
                "content": {"application/json": {"schema": _reference(response, schemas)}},
            },
            "default": _ERROR,
        },
    }
    if route.verb == "POST":
        body = {"application/json": {"schema": _reference(request, schemas)}}
        operation["requestBody"] = {"required": True, "content": body}
    else:
        parameters += [each for each in _parameters(request, schemas) if each["name"] not in in_path]
    operation["parameters"] = [*parameters, _HEIGHT]
    return operation


def _parameters(
    descriptor: Descriptor, schemas: dict[str, Any], prefix: str = "", depth: int = 1
) -> Iterator[dict[str, Any]]:
    for field in descriptor.fields:
        name = prefix + field.name
        nested = field.message_type
        if nested is not None and nested.full_name not in _WELL_KNOWN:
            if depth < _DEPTH_MAX and field.label != FieldDescriptor.LABEL_REPEATED:
                yield from _parameters(nested, schemas, f"{name}.", depth + 1)
            continue
        yield {"name": name, "in": "query", "schema": _schema(field, schemas)}


def _reference(descriptor: Descriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    name = descriptor.full_name
    if name in _WELL_KNOWN:
        return _WELL_KNOWN[name]
    if name not in schemas:
        schemas[name] = {}  # a message may contain itself
        properties = {field.name: _schema(field, schemas) for field in descriptor.fields}
        schemas[name] = {"type": "object", "properties": properties}
    return {"$ref": f"#/components/schemas/{name}"}


def _schema(field: FieldDescriptor, schemas: dict[str, Any]) -> dict[str, Any]:
    one: dict[str, Any]
    if field.message_type is not None:
        one = _reference(field.message_type, schemas)
    elif field.enum_type is not None:
        one = {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    elif field.type == FieldDescriptor.TYPE_BYTES:
        one = {"type": "string", "format": "byte"}
    else:
        one = _SCALARS.get(field.cpp_type, {"type": "string"})
    return {"type": "array", "items": one} if field.label == FieldDescriptor.LABEL_REPEATED else one

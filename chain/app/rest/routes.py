"""HTTP routes of the services, made from the table of methods.

The methods of the Cosmos SDK have their routes in the option ``google.api.http`` of their descriptors. A method of
``assay.*`` has the route of its package and name, such as ``/assay/market/v1/simulate_match``. It takes GET with the
fields of the request as parameters, and POST with the request as JSON.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from google.api import annotations_pb2

from chain.app.services.method import Method

_PART: Final = re.compile(r"\{([^{}=]+)(=[^{}]*)?\}")
_DOT: Final = "__"


@dataclass(frozen=True, slots=True)
class RestRoute:
    """One route: verb, path and method. Parts of the path in braces are fields of the request."""

    verb: str
    path: str
    method: Method

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the request that are in the path."""
        return tuple(match.group(1) for match in _PART.finditer(self.path))

    @property
    def pattern(self) -> str:
        """The path in the form of Starlette."""

        def part(match: re.Match[str]) -> str:
            kind = ":path" if match.group(2) else ""
            return "{" + match.group(1).replace(".", _DOT) + kind + "}"

        return _PART.sub(part, self.path)


def field_of(name: str) -> str:
    """Return the field of the request for the name of a part in :attr:`RestRoute.pattern`."""
    return name.replace(_DOT, ".")


def make_routes(methods: Iterable[Method]) -> list[RestRoute]:
    """Return the routes of all methods but streams; a path without fields comes before one with a field there."""
    routes = [route for method in methods if not method.is_stream for route in _routes(method)]
    return sorted(routes, key=lambda route: (_PART.sub("~", route.path), route.verb))


def _routes(method: Method) -> Iterator[RestRoute]:
    options = method.descriptor.GetOptions()
    if options.HasExtension(annotations_pb2.http):
        rule = options.Extensions[annotations_pb2.http]
        for each in (rule, *rule.additional_bindings):
            yield from _of_rule(method, each)
    else:
        *package, _, name = method.path.strip("/").replace("/", ".").split(".")
        path = "/" + "/".join((*package, _snake(name)))
        yield RestRoute("GET", path, method)
        yield RestRoute("POST", path, method)


def _of_rule(method: Method, rule: Any) -> Iterator[RestRoute]:
    if rule.get:
        yield RestRoute("GET", rule.get, method)
    if rule.post:
        yield RestRoute("POST", rule.post, method)


def _snake(name: str) -> str:
    return re.sub("(?<!^)(?=[A-Z])", "_", name).lower()

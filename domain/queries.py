"""Queries as domain values: requests and responses. Their fields have the names of the protobuf messages' fields.

Each request names its response as ``Query[Response]``. One pure function of the state answers each request
(``chain.state_machine.queries``). Lists are in the order of keys and have at most ``limit`` items (0: the default of
100). To request the next page, set ``after`` to the id or address of the last item of the previous page.
"""

from typing import Generic, TypeVar

R = TypeVar("R")


class Query(Generic[R]):
    """A request that the chain answers with a response of the class ``R``."""

    __slots__ = ()

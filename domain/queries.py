"""Queries as domain values: requests and responses; field names equal those of the protobuf messages.

Every request names its response as ``Query[Response]`` and is answered by one pure function of the state
(``chain.state_machine.queries``). Lists are in key order and cut at ``limit`` (0: the default of 100); ``after``
continues behind the id or address that ended the page.
"""

from typing import Generic, TypeVar

R = TypeVar("R")


class Query(Generic[R]):
    """A question to which the chain answers with an ``R``."""

    __slots__ = ()

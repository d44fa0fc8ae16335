"""What the handler of a message is: two functions or more, always in the same rhythm.

``check_stateless`` looks at the message alone: at the bounds of its fields (:mod:`domain.bounds`), unless its reader
did, and then at what ``check_fields`` has to say about several fields together, if there is one. ``check_state`` looks
at the message and the state, and returns what it found; ``apply`` changes the state and emits events, and cannot
refuse. A stateless check also runs before a transaction enters the mempool; it must therefore not depend on anything
that may change until the block. ``weight`` is the gas that ``apply`` costs beyond what the message says of itself,
because of what was found (:mod:`chain.state_machine.gas`); it is taken between the two.
Each component lists its handlers in ``HANDLERS`` of its ``handlers``, a file or a folder by subject.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from chain.state_machine.context import Context
from domain.bounds import check

M = TypeVar("M")
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Handler(Generic[M, F]):
    """The steps of a message; what ``check_state`` found is given to ``apply``."""

    message: type[M]
    check_state: Callable[[Context, M], F]
    apply: Callable[[Context, M, F], None]
    check_fields: Callable[[M], None] | None = None
    weight: Callable[[Context, M, F], int] | None = None

    def check_stateless(self, message: M, is_bounded: bool) -> None:
        """Refuse a message that is out of bounds or contradicts itself; ``is_bounded``: its bounds were looked at."""
        if not is_bounded:
            check(message)
        if self.check_fields is not None:
            self.check_fields(message)

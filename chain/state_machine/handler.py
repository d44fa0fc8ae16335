"""What the handler of a message is: one file each, always in the same rhythm.

``check_stateless`` looks at the message alone: at the bounds of its fields (:mod:`domain.bounds`), unless its reader
did, and then at what the handler has to say about several fields together, if anything. ``check_state`` looks at the
message and the state, and returns what it found; ``apply`` changes the state and emits events, and cannot refuse. A
stateless check also runs before a transaction enters the mempool; it must therefore not depend on anything that may
change until the block.
Each component lists its handlers in its ``handlers/__init__.py``.
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

    def check_stateless(self, message: M, is_bounded: bool) -> None:
        """Refuse a message that is out of bounds or contradicts itself; ``is_bounded``: its bounds were looked at."""
        if not is_bounded:
            check(message)
        if self.check_fields is not None:
            self.check_fields(message)

"""The handler of a message: two or more functions, always called in the same order.

``check_stateless`` reads only the message. It checks the bounds of the fields (:mod:`domain.bounds`), unless the
decoder has checked them. Then it calls ``check_fields``, if the handler has this function, for rules about several
fields together. ``check_state`` checks the message against the state, and returns the records that it read. ``weight``
returns the gas that ``apply`` needs because of these records, beyond the gas of the message itself
(:mod:`chain.state_machine.gas`). This gas is taken before ``apply`` runs. ``apply`` changes the state and emits events;
it cannot refuse. A message with a ``LANE`` also has ``duty``, which finds out from the state before the block whether
the message is a duty of its signer (:mod:`chain.state_machine.lane`).

A stateless check also runs before a transaction enters the mempool. So its result must not depend on anything that may
change before the block. Each component lists its handlers in ``HANDLERS`` of its ``handlers``, a file or a folder by
subject.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from chain.state_machine.context import Context
from chain.state_machine.store import Overlay
from domain.bounds import check
from domain.keys import PanelKey

M = TypeVar("M")
F = TypeVar("F")


class Duty(NamedTuple):
    """A duty of a message's signer: its deadline (chain seconds), and the panel if it is the duty of a seat."""

    deadline: int
    panel: PanelKey | None = None


@dataclass(frozen=True, slots=True)
class Handler(Generic[M, F]):
    """The functions that process one type of message; ``weight`` and ``apply`` get the result of ``check_state``."""

    message: type[M]
    check_state: Callable[[Context, M], F]
    apply: Callable[[Context, M, F], None]
    check_fields: Callable[[M], None] | None = None
    weight: Callable[[Context, M, F], int] | None = None
    # A function that returns the duty, or None if the message is not a duty of its signer.
    duty: Callable[[Overlay, M], Duty | None] | None = None

    def check_stateless(self, message: M, is_bounded: bool) -> None:
        """Refuse a message with a field out of bounds, or with fields that contradict each other.

        ``is_bounded`` means that the bounds of its fields were checked before.
        """
        if not is_bounded:
            check(message)
        if self.check_fields is not None:
            self.check_fields(message)

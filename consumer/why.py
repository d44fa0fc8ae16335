"""Why an order is where it is."""

from dataclasses import dataclass

from consumer.panels import tell_panel, tell_stop
from domain.queries import OrderResponse
from domain.reasons import AttemptEnd, CloseReason
from domain.records import OrderState


@dataclass(frozen=True, slots=True)
class Why:
    """What an order waits for, or ended with; as text it is a line for each reason.

    Example::

        found = order.why()
        print(found)
        print(found.unmatched, found.attempts)
    """

    state: OrderState
    # None while it lives.
    closed: CloseReason | None
    # Attempts that ended before the order, by number.
    attempts: dict[int, AttemptEnd]
    # How many bids failed on which condition when it was tried last.
    unmatched: dict[str, int]
    # Where the job has no result; empty where it has.
    stopped: str
    # What panels wait for or found wrong.
    panels: tuple[str, ...]

    def __str__(self) -> str:
        """Return the reasons, one on each line."""
        closed = f": {self.closed.name.lower()}" if self.closed else ""
        lines = [f"the order is {self.state.name.lower()}{closed}"]
        lines += [
            f"attempt {number} ended: {end.name.lower()}" for number, end in self.attempts.items()
        ]
        lines += [self.stopped] if self.stopped else []
        lines += [f"{count} bids fail on {name}" for name, count in self.unmatched.items()]
        return "\n".join([*lines, *self.panels])


def why(on_chain: OrderResponse) -> Why:
    """Return the reasons that the chain has."""
    order = on_chain.order
    return Why(
        order.state,
        CloseReason(order.close_reason) if order.close_reason else None,
        {a.attempt: AttemptEnd(a.end_reason) for a in on_chain.assignments if a.end_reason},
        dict(order.unmatched),
        tell_stop(on_chain),
        tuple(line for panel in on_chain.panels for line in tell_panel(panel)),
    )

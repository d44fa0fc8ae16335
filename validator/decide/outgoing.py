"""The choice of the next transaction: everything that is due is sent together, sorted by deadline.

Each look at the chain lists all actions to send, and an action that a later look does not list is dropped. Only one
transaction is under way at a time, and it contains as many messages as are allowed. So ten seats with the same deadline
are answered in one block.

If one message fails, its whole transaction fails. Messages that anyone can make fail are therefore sent alone. If a
transaction of several messages is refused, those that the chain would accept are sent in the next transaction.

Times are milliseconds of a steady clock. Deadlines are seconds of the chain's clock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from domain.limits import MESSAGES_MAX
from domain.messages import LaneHalf, Message
from validator.decide.actions import SendAnswer, SendNotice, SendTx

Outgo = SendTx | SendAnswer | SendNotice
"""An action that sends messages."""
Sifted = tuple[tuple[Outgo, ...], tuple[Outgo, ...]]
"""Two lists of actions: those that the chain accepts together, and those that it refuses even if each is sent alone."""
ITEMS_MAX = 640
"""Largest total number of list items in a transaction of several messages, each item counted with its weight in
``Message.GAS_ITEMS``. It is the number that 128 shares have. So the transaction stays below a tenth of a block's gas,
even with the margin of an estimate.
"""
PAUSE_MS = 200
"""Pause before an action that was sent may be sent again."""
RETRY_MS, RETRY_MS_MAX = 2_000, 8_000
"""Pause (ms) after the first failure of an action, and the longest pause. The pause doubles with each further
failure."""
FORGET_MS = 300_000


@dataclass(frozen=True, slots=True)
class Past:
    """The past of an action: the time when it was last sent, the time when it may be sent again, and its number of
    failures in a row.
    """

    ended: int
    again_at: int
    failures: int


NEW = Past(-1, 0, 0)
"""The past of an action that was never sent."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An action to send, and the time at which the look that asks for it began."""

    action: Outgo
    seen: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The actions to send, the transaction under way, and the past of each action.

    ``most`` is the largest number of messages in a transaction. It is lower after a transaction was refused for an
    unknown reason.
    """

    wanted: tuple[Wanted, ...] = ()
    under_way: tuple[Outgo, ...] = ()
    past: Mapping[str, Past] = field(default_factory=dict)
    most: int = MESSAGES_MAX


def want(state: Outgoing, actions: Iterable[Outgo], seen: int, *, whole: bool) -> Outgoing:
    """Replace the actions to send by the actions that a look asks for.

    If the look is not ``whole``, the notices that wait to be sent are kept.
    """
    past = {key: was for key, was in state.past.items() if seen - was.ended < FORGET_MS}
    notices = (known for known in state.wanted if isinstance(known.action, SendNotice) and not whole)
    wanted = (*notices, *(Wanted(action, seen) for action in actions))
    return replace(state, wanted=wanted, past=past)


def waiting(state: Outgoing, now: int) -> tuple[Outgo, ...]:
    """Return the actions that may be sent now, sorted by deadline and then by the time when they were last sent.

    An action that ended after the look began is left out, because the look could not see the action's effect.
    """
    going = {action.key for action in state.under_way}
    free: list[tuple[int, int, str, Outgo]] = []
    for item in state.wanted:
        action = item.action
        was = state.past.get(action.key, NEW)
        if now >= was.again_at and item.seen > was.ended and action.key not in going:
            free.append((action.by, was.ended, action.key, action))
    return tuple(action for *_, action in sorted(free, key=lambda each: each[:3]))


def take(state: Outgoing, now: int) -> Outgoing:
    """Start the next transaction, if there is an action to send and no transaction is under way."""
    if state.under_way or not state.wanted:
        return state
    return replace(state, under_way=bundle(waiting(state, now), state.most))


def bundle(actions: Sequence[Outgo], most: int = MESSAGES_MAX) -> tuple[Outgo, ...]:
    """Return the first of these actions, and the next ones that may share its transaction.

    If any of the actions is a duty, return only duties of one half of the lane. Any other message would put the whole
    transaction out of the lane.
    """
    first: list[Outgo] = []
    messages = items = 0
    half = next(filter(None, map(half_of, actions)), None)
    for action in actions:
        if half_of(action) is not half:
            continue
        messages += len(action.messages)
        items += sum(map(_items, action.messages))
        alone = isinstance(action, SendNotice)
        if first and (alone or messages > most or items > ITEMS_MAX):
            break
        first.append(action)
        if alone:
            break
    return tuple(first)


def _items(message: Message) -> int:
    """Return the number of items that the lists of a message cost."""
    return sum(weight * len(getattr(message, name)) for name, weight in message.GAS_ITEMS.items())


def half_of(action: Outgo) -> LaneHalf | None:
    """Return the half of the block's lane that reserves room for an action's messages; None if they are not duties."""
    half = action.messages[0].LANE
    return half if all(message.LANE is half for message in action.messages) else None


def in_lane(state: Outgoing) -> bool:
    """Return whether the transaction under way offers only the lowest price, as duties may.

    If one of its duties failed before, the transaction offers the usual price. Then it can get into a block even if the
    lane has no place for it.
    """
    return all(
        half_of(action) is not None and state.past.get(action.key, NEW).failures == 0 for action in state.under_way
    )


def messages_of(actions: Iterable[Outgo]) -> tuple[Message, ...]:
    """Return the messages of a transaction."""
    return tuple(message for action in actions for message in action.messages)


# The end of a transaction


def arrived(state: Outgoing, now: int) -> Outgoing:
    """Record that the transaction under way is in a block."""
    past = {action.key: Past(now, now + PAUSE_MS, 0) for action in state.under_way}
    most = min(MESSAGES_MAX, 2 * state.most)
    return replace(state, under_way=(), past={**state.past, **past}, most=most)


def failed(state: Outgoing, keys: Iterable[str], now: int) -> Outgoing:
    """Record that the actions ``keys`` of the transaction under way failed, or may have failed.

    The other actions of the transaction may be sent again.
    """
    past = dict(state.past)
    for key in keys:
        before = past.get(key)
        failures = before.failures + 1 if before else 1
        pause = min(RETRY_MS << min(failures - 1, 8), RETRY_MS_MAX)
        past[key] = Past(now, now + pause, failures)
    return replace(state, under_way=(), past=past)


def refused(state: Outgoing, passing: Sequence[Outgo], bad: Sequence[Outgo], now: int) -> Outgoing:
    """Record that the chain refused the transaction under way, with the result (``passing``, ``bad``) of :func:`sift`.

    The actions in ``bad`` have failed, and the others may be sent again. If the chain would now accept all actions
    together, the reason for the refusal is unknown, so the next transactions have fewer messages.
    """
    if len(passing) == len(state.under_way):
        state = replace(state, most=max(1, len(messages_of(passing)) // 2))
    return failed(state, (action.key for action in bad), now)


def sift(going: Sequence[Outgo], passes: Callable[[Sequence[Outgo]], bool]) -> Sifted:
    """Return two lists of actions: those that the chain would accept together, and those that it would refuse even if
    each were sent alone.

    The remaining actions can go in a later transaction. ``passes`` returns whether the chain would accept the given
    actions now. Call this after the chain has refused one transaction with all these actions. If there is only one
    action, it has already failed alone, so ``passes`` is not called.
    """
    if len(going) == 1:
        return (), tuple(going)
    passing: list[Outgo] = []
    bad: list[Outgo] = []
    for action in going:
        if passes((*passing, action)):
            passing.append(action)
        elif not passing or not passes((action,)):
            bad.append(action)
    return tuple(passing), tuple(bad)

"""What goes out next: everything that is due in one transaction, what ends first before the rest.

A look at the chain says all that is wanted; what a later one does not want any more is dropped. One transaction is
under way at a time, and takes as much as it may hold. So ten seats that end in one second are answered in one block.

A message that fails takes its whole transaction with it. What strangers can make fail therefore goes alone; where a
transaction fails all the same, whatever passes without the rest goes out in the next one.

Times are milliseconds of a steady clock, deadlines are the chain's seconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from domain.limits import MESSAGES_MAX
from domain.messages import Message
from validator.decide.actions import SendAnswer, SendNotice, SendTx

Outgo = SendTx | SendAnswer | SendNotice
"""What may go out together with others."""
Sifted = tuple[tuple[Outgo, ...], tuple[Outgo, ...]]
"""What passes together, and what failed."""
ITEMS_MAX = 256
"""Shares, rejections, answers and leaves in a transaction of several messages: half a kilobyte each at most, so that
it stays far below the bytes and the gas that one may have."""
PAUSE_MS = 200
"""Until something that came through may be sent again."""
RETRY_MS, RETRY_MS_MAX = 2_000, 8_000
"""Until something that failed is tried again; twice as long after each further time."""
FORGET_MS = 300_000


@dataclass(frozen=True, slots=True)
class Past:
    """When something was sent last, from when on it may be again, and how often in a row it failed."""

    ended: int
    again_at: int
    failures: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Something to send, and when the look began that asks for it."""

    action: Outgo
    seen: int


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What is wanted, what is under way, and what went out before.

    ``most`` is how many messages a transaction gets: fewer after one failed and nobody knows why.
    """

    wanted: tuple[Wanted, ...] = ()
    under_way: tuple[Outgo, ...] = ()
    past: Mapping[str, Past] = field(default_factory=dict)
    most: int = MESSAGES_MAX


def want(state: Outgoing, actions: Iterable[Outgo], seen: int, *, whole: bool) -> Outgoing:
    """Take note of everything that a look wants to be sent; one that is not ``whole`` knows nothing of notices."""
    past = {key: was for key, was in state.past.items() if seen - was.ended < FORGET_MS}
    kept = (known for known in state.wanted if isinstance(known.action, SendNotice) and not whole)
    wanted = (*kept, *(Wanted(action, seen) for action in actions))
    return replace(state, wanted=wanted, past=past)


def waiting(state: Outgoing, now: int) -> tuple[Outgo, ...]:
    """Return what may go out now, in the order in which it does: by deadline, then what was sent longest ago.

    What was sent after the look began may well have done what that look misses.
    """
    going = {action.key for action in state.under_way}
    free: list[tuple[int, int, str, Outgo]] = []
    for item in state.wanted:
        action, was = item.action, state.past.get(item.action.key, Past(-1, 0, 0))
        if now >= was.again_at and item.seen > was.ended and action.key not in going:
            free.append((action.by, was.ended, action.key, action))
    return tuple(action for *_, action in sorted(free, key=lambda each: each[:3]))


def take(state: Outgoing, now: int) -> Outgoing:
    """Put the next transaction under way, if there is something to send and nothing is."""
    if state.under_way or not state.wanted:
        return state
    return replace(state, under_way=bundle(waiting(state, now), state.most))


def bundle(actions: Sequence[Outgo], most: int = MESSAGES_MAX) -> tuple[Outgo, ...]:
    """Return the first of these actions, and those behind it that may share its transaction."""
    taken: list[Outgo] = []
    messages = items = 0
    for action in actions:
        messages += len(action.messages)
        items += sum(map(_items, action.messages))
        alone = isinstance(action, SendNotice)
        if taken and (alone or messages > most or items > ITEMS_MAX):
            break
        taken.append(action)
        if alone:
            break
    return tuple(taken)


def _items(message: Message) -> int:
    """Return how many entries the lists of a message have that weigh."""
    return sum(len(getattr(message, name)) for name in message.GAS_ITEMS)


def messages_of(actions: Iterable[Outgo]) -> tuple[Message, ...]:
    """Return the messages of a transaction."""
    return tuple(message for action in actions for message in action.messages)


# How a transaction ended


def arrived(state: Outgoing, now: int) -> Outgoing:
    """Take note that the transaction under way is in a block."""
    past = {action.key: Past(now, now + PAUSE_MS, 0) for action in state.under_way}
    most = min(MESSAGES_MAX, 2 * state.most)
    return replace(state, under_way=(), past={**state.past, **past}, most=most)


def failed(state: Outgoing, keys: Iterable[str], now: int) -> Outgoing:
    """Take note that these of what was under way failed, or that nobody knows whether they did; the rest is free."""
    past = dict(state.past)
    for key in keys:
        before = past.get(key)
        failures = before.failures + 1 if before else 1
        pause = min(RETRY_MS << min(failures - 1, 8), RETRY_MS_MAX)
        past[key] = Past(now, now + pause, failures)
    return replace(state, under_way=(), past=past)


def refused(state: Outgoing, kept: Sequence[Outgo], bad: Sequence[Outgo], now: int) -> Outgoing:
    """Take note that the chain refused the transaction under way, and of what :func:`sift` found.

    What does not pass by itself has failed; the rest is free to go. Where all of it passes, nobody knows what it was:
    the next transactions are smaller.
    """
    if len(kept) == len(state.under_way):
        state = replace(state, most=max(1, len(messages_of(kept)) // 2))
    return failed(state, (action.key for action in bad), now)


def sift(going: Sequence[Outgo], passes: Callable[[Sequence[Outgo]], bool]) -> Sifted:
    """Return what passes together, and what does not pass even by itself; the rest passes in another transaction.

    ``passes`` tells what the chain would take now. What was refused all by itself has failed, whatever it says.
    """
    if len(going) == 1:
        return (), tuple(going)
    kept: list[Outgo] = []
    bad: list[Outgo] = []
    for action in going:
        if passes((*kept, action)):
            kept.append(action)
        elif not kept or not passes((action,)):
            bad.append(action)
    return tuple(kept), tuple(bad)

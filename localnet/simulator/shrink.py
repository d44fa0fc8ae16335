"""Shrinking of a failing run: what can be left out of it, so that it still fails in the same way."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from localnet.simulator.actors.consumer import OrderPlan
from localnet.simulator.behaviours import ConsumerHabits, HonestProvider, HonestValidator
from localnet.simulator.world import Setup

T = TypeVar("T")
FAULTS = (
    "crashes",
    "stops",
    "joins",
    "loss",
    "delay",
    "lag",
    "failing",
    "spam",
    "outages",
    "sponsors",
    "challengers",
    "early",
    "cancels",
)
"""Faults that a run can do without."""
PLAYS_MAX = 80
"""Most runs that shrinking plays."""


@dataclass(frozen=True)
class Cuts:
    """The parts that are left of a run: the numbers of its orders, and its bad parties (None: all).

    The faults of ``without`` are left out.
    """

    orders: tuple[int, ...] | None = None
    bad: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the options with which the command plays the run."""
        options = []
        if self.orders is not None:
            options.append(f"--only-orders {','.join(map(str, self.orders))}")
        if self.bad is not None:
            options.append(f"--only-bad {','.join(self.bad) or 'none'}")
        if self.without:
            options.append(f"--without {','.join(self.without)}")
        return " ".join(options)


NOTHING = Cuts()


def bad_parties(setup: Setup) -> tuple[str, ...]:
    """Return the names of all who may not be honest; a consumer's bad order has a name of its own."""
    return tuple(
        [p.name for p in setup.validators if not p.behaviour.honest]
        + [p.address for p in setup.providers if not p.behaviour.honest]
        + [p.name for p in setup.challengers if not p.behaviour.honest]
        + [f"order {number}" for number, plan in enumerate(setup.orders) if not plan.honest]
    )


def cut(setup: Setup, cuts: Cuts) -> Setup:
    """Return a setup without what is cut."""
    if cuts.bad is not None:
        setup = _only_bad(setup, frozenset(cuts.bad))
    if cuts.orders is not None:
        setup = replace(setup, orders=tuple(setup.orders[number] for number in cuts.orders))
    for fault in cuts.without:
        setup = _without(setup, fault)
    return setup


def _only_bad(setup: Setup, bad: frozenset[str]) -> Setup:
    def order(number: int) -> OrderPlan:
        plan = setup.orders[number]
        if plan.honest or f"order {number}" in bad:
            return plan
        habits = ConsumerHabits(cancel_after=plan.habits.cancel_after, early=plan.habits.early)
        return replace(plan, honest=True, habits=habits, job=replace(plan.job, breaks_in=None))

    return replace(
        setup,
        validators=tuple(
            p if p.behaviour.honest or p.name in bad else replace(p, behaviour=HonestValidator())
            for p in setup.validators
        ),
        providers=tuple(
            p if p.behaviour.honest or p.address in bad else replace(p, behaviour=HonestProvider())
            for p in setup.providers
        ),
        challengers=tuple(p for p in setup.challengers if p.behaviour.honest or p.name in bad),
        orders=tuple(order(number) for number in range(len(setup.orders))),
    )


def _without(setup: Setup, fault: str) -> Setup:
    match fault:
        case "crashes":
            return replace(
                setup,
                validators=tuple(replace(p, crashes=()) for p in setup.validators),
                providers=tuple(replace(p, crashes=()) for p in setup.providers),
            )
        case "stops":
            return replace(setup, providers=tuple(replace(p, stops=None) for p in setup.providers))
        case "joins":
            return replace(setup, providers=tuple(replace(p, joins=0) for p in setup.providers))
        case "early":
            return replace(setup, orders=tuple(replace(p, habits=replace(p.habits, early=False)) for p in setup.orders))
        case "cancels":
            return replace(
                setup, orders=tuple(replace(p, habits=replace(p.habits, cancel_after=None)) for p in setup.orders)
            )
        case "outages":
            return replace(setup, outages=())
        case "sponsors":
            return replace(setup, sponsors=())
        case "challengers":
            return replace(setup, challengers=())
        case "loss":
            return replace(setup, loss=0, twice=0)
        case "lag":
            return replace(setup, lag=0)
        case "failing":
            return replace(setup, failing=0)
        case "delay":
            return replace(setup, delay=80)
        case "spam":
            return replace(setup, filler=None, spam=0)
    raise ValueError(f"{fault} is no fault; use one of {', '.join(FAULTS)}")


def same_failure(first: str, second: str) -> bool:
    """Return whether two failures differ only in names and numbers."""
    return bool(first and second) and _plain(first) == _plain(second)


def _plain(failure: str) -> str:
    return re.sub(r"\b(v\d+p\d+|v\d+|[0-9a-f]{6,}|\d+)\b", "#", failure)


def shrink(setup: Setup, failure: str, fails: Callable[[Cuts], str], most: int = PLAYS_MAX) -> tuple[Cuts, str]:
    """Return the smallest cuts that were found with which a run fails in the same way, and its failure.

    ``fails`` plays a run with cuts and returns its failure. Orders go first, because they take the most time.
    """
    left = [most]

    def holds(cuts: Cuts) -> str:
        if not left[0]:
            return ""
        left[0] -= 1
        found = fails(cuts)
        return found if same_failure(found, failure) else ""

    best = Cuts(orders=tuple(range(len(setup.orders))), bad=bad_parties(setup))
    for step in (_fewer_orders, _fewer_bad, _fewer_orders):
        smaller = next(step(best), None)
        while smaller is not None:
            candidates = step(best)
            smaller = None
            for cuts in candidates:
                found = holds(cuts)
                if found:
                    best, failure, smaller = cuts, found, cuts
                    break
    for fault in FAULTS:
        cuts = replace(best, without=(*best.without, fault))
        found = holds(cuts)
        if found:
            best, failure = cuts, found
    return best, failure


def _fewer_orders(cuts: Cuts) -> Iterator[Cuts]:
    for orders in _parts(cuts.orders or ()):
        yield replace(cuts, orders=orders)


def _fewer_bad(cuts: Cuts) -> Iterator[Cuts]:
    for bad in _parts(cuts.bad or (), least=0):
        yield replace(cuts, bad=bad)


def _parts(items: tuple[T, ...], least: int = 1) -> Iterator[tuple[T, ...]]:
    """Yield smaller parts of items: halves, then quarters, then all but one."""
    size = (len(items) + 1) // 2
    while size:
        for start in range(0, len(items), size):
            kept = items[:start] + items[start + size :]
            if least <= len(kept) < len(items):
                yield kept
        size = 0 if size == 1 else (size + 1) // 2

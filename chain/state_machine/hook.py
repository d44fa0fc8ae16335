"""Hooks: a component calls functions of later components through a hook, without importing them.

A component declares a hook as a constant and calls it. A later component lists the hook and the function to call in its
``Component`` value. The running rules hold the subscribers, in the order of the components. So importing a module does
not register anything, and two versions of the rules can have different subscribers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from chain.state_machine.context import Context

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """A named hook. ``P`` stands for its arguments, ``R`` for the answer of one subscriber."""

    def __init__(self, name: str) -> None:
        """Keep the name, which appears in texts."""
        self.name = name

    def __call__(self, ctx: Context, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """Call all subscribers, and return a list of their answers in the order of the components."""
        return [function(ctx, *args, **kwargs) for function in ctx.rules.get_subscribers(self)]

    def to(self, function: Callable[Concatenate[Context, P], R]) -> "Subscription":
        """Return the subscription that makes this hook call ``function``; a ``Component`` lists its subscriptions."""
        return Subscription(self, function)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A function and the hook that calls it.

    Make subscriptions only with :meth:`Hook.to`, so that type checkers compare the types of the function and the hook.
    """

    hook: Hook[..., Any]
    function: Callable[..., Any]

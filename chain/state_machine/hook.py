"""A hook: the place where a component lets those above it take part, without knowing them.

A component declares a hook as a constant and calls it. A component above names the hook in its ``Component`` value with
the function to call. The running rules hold the subscribers, in the order of the components, so that nothing is
registered when a module is imported, and two versions of the rules can have different subscribers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from chain.state_machine.context import Context

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """A named question or notice to the components above; ``P`` are its arguments, ``R`` is one answer."""

    def __init__(self, name: str) -> None:
        """``name`` is the name of the hook in texts."""
        self.name = name

    def __call__(self, ctx: Context, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """Call all subscribers and return their answers, in the order of the components."""
        return [function(ctx, *args, **kwargs) for function in ctx.rules.get_subscribers(self)]

    def to(self, function: Callable[Concatenate[Context, P], R]) -> "Subscription":
        """Return the subscription of a function, to be listed in a ``Component``."""
        return Subscription(self, function)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A function behind a hook; :meth:`Hook.to` makes one and checks that the types fit."""

    hook: Hook[..., Any]
    function: Callable[..., Any]

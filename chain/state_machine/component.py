"""A component as a value: everything that the story of a block, queries and tests need to know about it.

Each component's folder has one file ``component.py`` with the constant ``COMPONENT``;
:mod:`chain.state_machine.components` lists them in their order, each standing on those before it. What a component says
to others (messages, events, queries) lies in the folder of ``domain`` of the same name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from chain.state_machine.context import Context, Draw, TxOrigin
from chain.state_machine.handler import Handler
from chain.state_machine.hook import Subscription
from chain.state_machine.invariant import Invariants
from chain.state_machine.queue import Effect
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Space
from domain.block import ValidatorUpdate
from domain.genesis import Genesis
from domain.tx import Tx


class Ante(Protocol):
    """The check that every transaction passes before its messages: signature, fee and sequence."""

    def __call__(
        self,
        ctx: Context,
        tx: Tx,
        *,
        min_gas_price_millionths: int,
        check_signature: bool = True,
        simulate: bool = False,
    ) -> TxOrigin:
        """Take the fee and advance the sequence, or refuse; return the sender."""


Answer = Callable[[Overlay, Any], Any]
"""A pure function of a state and a request."""
GenesisPart = Callable[[Overlay, Genesis], tuple[ValidatorUpdate, ...]]
"""Writes a component's part of the first state and returns the consensus powers that it gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One component of the state machine. All fields but the name are optional."""

    name: str
    tables: tuple[Space, ...] = ()
    handlers: tuple[Handler[Any, Any], ...] = ()
    # What its entries of the queue do.
    effects: tuple[Effect, ...] = ()
    # What its lots draw.
    draws: tuple[Draw, ...] = ()
    # Functions behind hooks of components below, and of the story (:mod:`chain.state_machine.steps`).
    hooks: tuple[Subscription, ...] = ()
    # By the class of the request.
    answers: Mapping[type, Answer] = field(default_factory=dict)
    invariants: Invariants = field(default_factory=Invariants)
    genesis: GenesisPart | None = None
    # The share of a block's gas for due work (percent) that its own steps take, beside the lanes of the queue.
    due_percent: int = 0
    # What its work weighs, by the name of the constant.
    gas: Mapping[str, int] = field(default_factory=dict)
    # Brings what the version before left in the state into the form of this one.
    migrate: Callable[[Overlay], None] | None = None
    # The check that every transaction passes before its messages; exactly one component has it.
    ante: Ante | None = None

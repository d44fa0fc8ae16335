"""The definition of a component as a value: everything that block processing, queries and tests need from the
component.

Each component's folder has one file ``component.py`` with the constant ``COMPONENT``.
:mod:`chain.state_machine.components` lists these constants. A component uses only components that come before it in the
list. Its messages, events and queries are in the folder of the same name in ``domain``.
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
from domain.params import Params
from domain.tx import Tx


class Ante(Protocol):
    """The check that every transaction must pass before its messages are applied: signature, fee and sequence."""

    def __call__(
        self,
        ctx: Context,
        tx: Tx,
        *,
        price_millionths: int,
        check_signature: bool = True,
        simulate: bool = False,
    ) -> TxOrigin:
        """Take the fee, advance the sequence, return the origin of the messages; raise Refusal if the check fails."""


Answer = Callable[[Overlay, Any], Any]
"""A pure function that answers a request from a state."""
GenesisPart = Callable[[Overlay, Genesis], tuple[ValidatorUpdate, ...]]
"""A function that writes a component's part of the first state and returns the consensus powers from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A component of the state machine. All fields but the name are optional."""

    name: str
    tables: tuple[Space, ...] = ()
    handlers: tuple[Handler[Any, Any], ...] = ()
    # The actions that its queue entries cause.
    effects: tuple[Effect, ...] = ()
    # The draws that its lots wait for.
    draws: tuple[Draw, ...] = ()
    # Functions for the hooks of earlier components and for the steps of a block (:mod:`chain.state_machine.steps`).
    hooks: tuple[Subscription, ...] = ()
    # Functions that answer queries, by the class of the request.
    answers: Mapping[type, Answer] = field(default_factory=dict)
    invariants: Invariants = field(default_factory=Invariants)
    genesis: GenesisPart | None = None
    # A function that refuses parameters, of the genesis or of a proposal, that do not fit each other.
    check_params: Callable[[Params], None] | None = None
    # Percent of a block's gas for due work (``due_gas``) that the component's own steps may use. The lanes of the queue
    # have other shares.
    due_percent: int = 0
    # The gas weights of the component's work, by the name of the constant.
    gas: Mapping[str, int] = field(default_factory=dict)
    # A function that converts the state of the previous version of the rules to the form of this version.
    migrate: Callable[[Overlay], None] | None = None
    # The check that every transaction passes before its messages; exactly one component has one.
    ante: Ante | None = None

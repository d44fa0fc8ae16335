"""A second version of the rules for tests: it adds a component, and keeps balances of a table in another form."""

from dataclasses import replace

from chain.state_machine.component import Component
from chain.state_machine.components import COMPONENTS
from chain.state_machine.context import Context
from chain.state_machine.handler import Handler
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.rules import Rulebook, Rules
from chain.state_machine.store import Overlay
from chain.state_machine.tables import BytesTable, Numbers
from domain.block import ValidatorUpdate
from domain.genesis import Genesis, RulesFrom
from domain.ledger.messages import MsgDepositBond
from domain.registry.events import EndpointSet
from domain.registry.messages import MsgSetEndpoint

NICKNAMES = BytesTable(0xF1, "nickname")
"""What version 1 keeps: a text for each validator."""
LENGTHS = Numbers(0xF0, "length of a nickname")
"""What version 2 keeps in its place."""


def write_names(store: Overlay, genesis: Genesis) -> tuple[ValidatorUpdate, ...]:
    """Write the table of version 1."""
    for validator in genesis.validators:
        NICKNAMES.set(store, validator.moniker.encode(), validator.operator)
    return ()


def migrate(store: Overlay) -> None:
    """Turn the table of version 1 into that of version 2."""
    for (operator,) in list(NICKNAMES.keys(store)):
        text = NICKNAMES.get(store, operator) or b""
        LENGTHS.set(store, len(text), operator)
        NICKNAMES.delete(store, operator)


NAMES = Component(name="names", tables=(NICKNAMES,), genesis=write_names)
LENGTHY_NAMES = Component(name="names", tables=(LENGTHS,), migrate=migrate)


def without(component: Component, message: type) -> Component:
    """Return a component that does not handle a message."""
    kept = tuple(handler for handler in component.handlers if handler.message is not message)
    return replace(component, handlers=kept)


def refuse_nothing(ctx: Context, message: MsgSetEndpoint) -> None:
    """Find nothing."""


def apply_loudly(ctx: Context, message: MsgSetEndpoint, _: None) -> None:
    """Set the endpoint in capitals, so that a test sees which version ran."""
    endpoint = message.endpoint.upper()
    VALIDATORS.update(ctx.store, message.operator, endpoint=endpoint)
    ctx.emit(EndpointSet(message.operator, endpoint, message.certificate))


def louder(component: Component) -> Component:
    """Return the registry with another handler of MsgSetEndpoint."""
    if component.name != "registry":
        return component
    found = without(component, MsgSetEndpoint)
    return replace(found, handlers=(*found.handlers, Handler(MsgSetEndpoint, refuse_nothing, apply_loudly)))


FIRST = Rules(1, (*[without(component, MsgDepositBond) for component in COMPONENTS], NAMES))
"""Rules that lack a message, as those of an older release do."""
SECOND = Rules(2, (*map(louder, COMPONENTS), LENGTHY_NAMES))
BOTH = Rulebook(FIRST, SECOND)
ONLY_FIRST = Rulebook(FIRST)


def switching(genesis: Genesis, height: int, version: int = 2) -> Genesis:
    """Return a genesis whose rules change at a height."""
    return replace(genesis, rules=(RulesFrom(1, 1), RulesFrom(height, version)))

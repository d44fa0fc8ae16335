"""The component of the registry: validators with their stakes and beacon keys, and providers in their clusters."""

from chain.state_machine.component import Component
from chain.state_machine.registry.beacon import apply_reveal
from chain.state_machine.registry.genesis import write_registry
from chain.state_machine.registry.handlers import HANDLERS
from chain.state_machine.registry.invariants import INVARIANTS
from chain.state_machine.registry.members import take_updates
from chain.state_machine.registry.queries import ANSWERS
from chain.state_machine.registry.tables import (
    BEACON_KEYS,
    CLUSTERS,
    LAST_REVEALS,
    OPERATORS,
    PROVIDERS,
    STAKES_BEFORE,
    VALIDATORS,
)
from chain.state_machine.steps import POWERS, REVEAL

COMPONENT = Component(
    name="registry",
    tables=(
        VALIDATORS,
        OPERATORS,
        STAKES_BEFORE,
        PROVIDERS,
        CLUSTERS,
        LAST_REVEALS,
        BEACON_KEYS,
    ),
    handlers=HANDLERS,
    hooks=(REVEAL.to(apply_reveal), POWERS.to(take_updates)),
    answers=ANSWERS,
    invariants=INVARIANTS,
    genesis=write_registry,
)

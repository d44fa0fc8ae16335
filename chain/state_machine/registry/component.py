"""The component of the registry: validators with their beacon keys, and providers in their clusters."""

from chain.state_machine.component import Component
from chain.state_machine.registry.beacon import apply_reveal, on_begin, update_ready
from chain.state_machine.registry.genesis import write_registry
from chain.state_machine.registry.handlers import HANDLERS
from chain.state_machine.registry.invariants import INVARIANTS
from chain.state_machine.registry.members import on_backing, on_created, on_edited
from chain.state_machine.registry.queries import ANSWERS
from chain.state_machine.registry.tables import (
    BEACON_KEYS,
    CLUSTERS,
    FIRST_KEYS,
    LAST_REVEALS,
    PROVIDERS,
    VALIDATORS,
)
from chain.state_machine.staking.hooks import (
    BACKING_CHANGED,
    VALIDATOR_CREATED,
    VALIDATOR_EDITED,
    VALIDATOR_UNBONDING,
)
from chain.state_machine.steps import BEGIN, REVEAL

COMPONENT = Component(
    name="registry",
    tables=(
        VALIDATORS,
        PROVIDERS,
        CLUSTERS,
        LAST_REVEALS,
        BEACON_KEYS,
        FIRST_KEYS,
    ),
    handlers=HANDLERS,
    hooks=(
        REVEAL.to(apply_reveal),
        BEGIN.to(on_begin),
        VALIDATOR_CREATED.to(on_created),
        VALIDATOR_EDITED.to(on_edited),
        BACKING_CHANGED.to(on_backing),
        VALIDATOR_UNBONDING.to(update_ready),
    ),
    answers=ANSWERS,
    invariants=INVARIANTS,
    genesis=write_registry,
)

"""Invariants of the registry's copy of what staking knows about validators."""

from chain.state_machine.context import Running
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.registry.members import copy_of
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.staking.tables import VALIDATOR_STAKES
from chain.state_machine.store import Overlay


def check_copies(store: Overlay, _: Running) -> None:
    """Check that each validator has the stake, the name and the key that staking has."""
    validators = {validator.operator: validator for validator in VALIDATORS.scan(store)}
    for stake in VALIDATOR_STAKES.scan(store):
        validator = validators.pop(stake.operator, None)
        is_equal = validator is not None and copy_of(stake, validator) == validator
        ensure(is_equal, f"the registry has another stake, name or key of {stake.operator}")
    ensure(not validators, "the registry has a validator that staking does not have")


INVARIANTS = Invariants(whole=(check_copies,))

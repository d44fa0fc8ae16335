"""Invariants of validators' stakes."""

from chain.state_machine.context import Running
from chain.state_machine.invariant import Invariants
from chain.state_machine.ledger.invariants import ensure_pot
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.store import Overlay
from domain.registry.moves import STAKES_POT


def check_stakes(store: Overlay, _: Running) -> None:
    """Check that the count of the stakes pot is the sum of the stakes of all validators."""
    ensure_pot(store, STAKES_POT, sum(validator.stake for validator in VALIDATORS.scan(store)))


INVARIANTS = Invariants(whole=(check_stakes,))

"""The registry's part of the first state: validators with their endpoints, beacon keys and promises."""

from chain.state_machine.genesis import check_genesis
from chain.state_machine.registry.members import new_validator
from chain.state_machine.registry.tables import BEACON_KEYS, VALIDATORS
from chain.state_machine.staking.tables import VALIDATOR_STAKES
from chain.state_machine.store import Overlay
from domain.block import ValidatorUpdate
from domain.genesis import Genesis, GenesisValidator
from domain.registry.records import BeaconKey


def write_registry(overlay: Overlay, genesis: Genesis) -> tuple[ValidatorUpdate, ...]:
    """Write the validators."""
    for validator in genesis.validators:
        _add_validator(overlay, validator)
    return ()


def _add_validator(overlay: Overlay, genesis: GenesisValidator) -> None:
    known = BEACON_KEYS.has(overlay, genesis.beacon_key)
    check_genesis(not known, "validators.beacon_key", "two validators have the same key")
    VALIDATORS.put(overlay, new_validator(VALIDATOR_STAKES.must(overlay, genesis.operator)))
    VALIDATORS.update(
        overlay,
        genesis.operator,
        endpoint=genesis.endpoint,
        certificate=genesis.certificate,
        beacon_keys=(BeaconKey(genesis.beacon_key, 1),),
        audit_speed=genesis.audit_speed,
        audit_rate=genesis.audit_rate,
    )
    BEACON_KEYS.mark(overlay, genesis.beacon_key)

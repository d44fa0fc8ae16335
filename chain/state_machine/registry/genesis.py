"""The registry's part of the first state: validators with their stakes."""

from hashlib import sha256

from chain.state_machine.genesis import check_genesis
from chain.state_machine.ledger.balances import ensure_account
from chain.state_machine.ledger.genesis import mint
from chain.state_machine.registry.members import compute_power
from chain.state_machine.registry.tables import BEACON_KEYS, OPERATORS, VALIDATORS
from chain.state_machine.store import Overlay
from domain.block import ValidatorUpdate
from domain.genesis import Genesis, GenesisValidator
from domain.registry.moves import STAKES_POT
from domain.registry.records import BeaconKey, Validator


def write_registry(overlay: Overlay, genesis: Genesis) -> tuple[ValidatorUpdate, ...]:
    """Write the validators, and return the powers of the first block."""
    for validator in genesis.validators:
        _add_validator(overlay, validator)
    powers = [ValidatorUpdate(v.cons_key, compute_power(v)) for v in VALIDATORS.scan(overlay)]
    return tuple(update for update in powers if update.power)


def _add_validator(overlay: Overlay, genesis: GenesisValidator) -> None:
    cons_address = sha256(genesis.cons_key).digest()[:20]
    check_genesis(
        VALIDATORS.get(overlay, genesis.operator) is None, "validators", f"{genesis.operator} is in the list twice"
    )
    check_genesis(not OPERATORS.has(overlay, cons_address), "validators", "two validators have the same consensus key")
    known = BEACON_KEYS.has(overlay, genesis.beacon_key)
    check_genesis(not known, "validators.beacon_key", "two validators have the same key")
    ensure_account(overlay, genesis.operator)
    validator = Validator(
        operator=genesis.operator,
        moniker=genesis.moniker,
        cons_key=genesis.cons_key,
        cons_address=cons_address,
        stake=genesis.stake,
        jailed=False,
        endpoint=genesis.endpoint,
        certificate=genesis.certificate,
        orders_settled=0,
        legs_failed=0,
        audits_answered=0,
        audits_missed=0,
        beacon_keys=(BeaconKey(genesis.beacon_key, 1),),
        audit_speed=genesis.audit_speed,
        audit_rate=genesis.audit_rate,
    )
    VALIDATORS.put(overlay, validator)
    BEACON_KEYS.mark(overlay, genesis.beacon_key)
    OPERATORS.set(overlay, genesis.operator.encode(), cons_address)
    mint(overlay, STAKES_POT, genesis.stake)

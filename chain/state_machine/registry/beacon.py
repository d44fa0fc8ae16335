"""The beacon on chain: the reveal that a block begins with, the beacon from it, and the beacon keys.

A block begins with the reveal of its proposer: a unique signature with the proposer's beacon key. A proposer that
revoked its key has no valid key. It makes no reveal, and its block has no beacon. If a proposer has a valid key,
validators refuse its proposal unless it begins with the right reveal. If a block without the right reveal is decided
nevertheless, it has no beacon either.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from chain.state_machine.context import HEAD, Context
from chain.state_machine.registry.tables import BEACON_KEYS, FIRST_KEYS, LAST_REVEALS, VALIDATORS, LastReveal
from chain.state_machine.staking.stakes import set_ready
from chain.state_machine.staking.tables import VALIDATOR_STAKES, get_operator, is_bonded
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.beacon import next_beacon, reveal_message
from domain.block import Block, TxResult
from domain.errors import BAD_PROOF, Refusal
from domain.registry.params import RegistryParams
from domain.registry.records import BeaconKey, Validator

FIRST_KEYS_MAX = 64
"""Number of validators whose first key may become valid in a block."""


@dataclass(frozen=True, slots=True)
class RevealDuty:
    """The duty to begin the next block with a reveal: the unique signature of ``message`` by the key ``pub_key``."""

    operator: str
    pub_key: bytes
    message: bytes


def get_reveal_duty(store: Overlay, proposer: bytes, height: int) -> RevealDuty | None:
    """Return the reveal duty of a proposer (consensus address) at a height; None if it has no valid key then."""
    operator = get_operator(store, proposer)
    pub_key = VALIDATORS.must(store, operator).beacon_key(height) if operator else b""
    if not pub_key:
        return None
    head = HEAD.must(store)
    return RevealDuty(operator, pub_key, reveal_message(head.chain_id, height, head.beacon))


def apply_reveal(ctx: Context, block: Block) -> TxResult | None:
    """Compute the beacon of this block, and return the result of the reveal; None if the block has no reveal."""
    if block.reveal is None:
        return None
    duty = get_reveal_duty(ctx.store, block.proposer, block.height)
    proof = block.reveal.proof
    if duty is None or not ctx.crypto.reveal(duty.pub_key, duty.message, proof):
        refusal = Refusal(BAD_PROOF, "proof", "is not the reveal that this block must begin with")
        return TxResult(
            code=refusal.code.number,
            codespace=refusal.code.space,
            log=str(refusal),
            gas_wanted=0,
            gas_used=0,
            events=(),
        )
    head = HEAD.must(ctx.store)
    beacon = next_beacon(head.beacon, proof)
    HEAD.put(ctx.store, replace(head, beacon=beacon))
    LAST_REVEALS.put(ctx.store, LastReveal(duty.operator, block.height, beacon))
    ctx.revealed = beacon
    ctx.note("beacon", ("operator", duty.operator), ("beacon", beacon.hex()))
    return TxResult(code=0, codespace="", log="", gas_wanted=0, gas_used=0, events=(ctx.events.pop(),))


def set_beacon_key(ctx: Context, operator: str, key: bytes) -> tuple[BeaconKey, tuple[bytes, ...]]:
    """Register a key that becomes valid after ``beacon_delay`` blocks. Until then only the currently valid key remains.

    So a validator never has several keys to choose from when it has to reveal. Return the new key and the dropped keys.
    """
    validator = VALIDATORS.must(ctx.store, operator)
    valid_key = validator.beacon_key(ctx.height)
    remaining = [beacon for beacon in validator.beacon_keys if beacon.key == valid_key]
    added = BeaconKey(key, ctx.height + ctx.block.params.of(RegistryParams).beacon_delay)
    VALIDATORS.update(ctx.store, operator, beacon_keys=(*remaining, added))
    BEACON_KEYS.mark(ctx.store, key)
    if not VALIDATOR_STAKES.must(ctx.store, operator).ready:
        FIRST_KEYS.mark(ctx.store, added.valid_from, operator)
    return added, _dropped(validator, remaining)


def revoke_beacon_key(ctx: Context, operator: str, key: bytes) -> tuple[bytes, ...]:
    """Make a key invalid, and return all keys that are dropped.

    If ``key`` is the valid key, earlier keys are dropped too. Otherwise the validator could choose between two keys.
    """
    validator = VALIDATORS.must(ctx.store, operator)
    was_valid = validator.beacon_key(ctx.height) == key
    remaining = tuple(
        beacon
        for beacon in validator.beacon_keys
        if beacon.key != key and not (was_valid and beacon.valid_from <= ctx.height)
    )
    VALIDATORS.update(ctx.store, operator, beacon_keys=remaining)
    update_ready(ctx, operator)
    return _dropped(validator, remaining)


def update_ready(ctx: Context, operator: str) -> None:
    """Let a validator outside the set be bonded only if it has a valid key, so that it can make reveals.

    A bonded validator stays, because the owner of a stolen key must be able to revoke it at once.
    """
    if is_bonded(VALIDATOR_STAKES.must(ctx.store, operator)):
        return
    keys = VALIDATORS.must(ctx.store, operator).beacon_keys
    is_valid = any(beacon.valid_from <= ctx.height for beacon in keys)
    set_ready(ctx, operator, ready=is_valid)
    for beacon in keys:
        if not is_valid:
            FIRST_KEYS.mark(ctx.store, beacon.valid_from, operator)


def on_begin(ctx: Context) -> None:
    """Let validators be bonded whose first key is valid now. A block looks at ``FIRST_KEYS_MAX``; others wait."""
    due = takewhile(lambda key: number_of(key[0]) <= ctx.height, FIRST_KEYS.keys(ctx.store))
    for height, operator in list(islice(due, FIRST_KEYS_MAX)):
        FIRST_KEYS.delete(ctx.store, number_of(height), operator)
        update_ready(ctx, operator.decode())


def _dropped(before: Validator, remaining: Iterable[BeaconKey]) -> tuple[bytes, ...]:
    stay = tuple(remaining)
    return tuple(beacon.key for beacon in before.beacon_keys if beacon not in stay)

"""The beacon on chain: whose unique signature a block begins with, what it makes of it, and the keys for it.

A block whose proposer has no key that counts (it gave its key up) begins with no reveal, and seeds nothing. Validators
refuse every proposal without the right one; should a block be decided all the same, it seeds nothing, either.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from chain.state_machine.context import HEAD, Context
from chain.state_machine.registry.tables import (
    BEACON_KEYS,
    LAST_REVEALS,
    VALIDATORS,
    LastReveal,
    get_operator,
)
from chain.state_machine.store import Overlay
from domain.beacon import next_beacon, reveal_message
from domain.block import Block, TxResult
from domain.errors import BAD_PROOF, Refusal
from domain.registry.params import RegistryParams
from domain.registry.records import BeaconKey, Validator


@dataclass(frozen=True, slots=True)
class RevealDuty:
    """What the next block must begin with: the unique signature of this key for this message."""

    operator: str
    pub_key: bytes
    message: bytes


def get_reveal_duty(store: Overlay, proposer: bytes, height: int) -> RevealDuty | None:
    """Return the duty of a proposer (consensus address) behind this state, or None where it has no key that counts."""
    operator = get_operator(store, proposer)
    pub_key = VALIDATORS.must(store, operator).beacon_key(height) if operator else b""
    if not pub_key:
        return None
    head = HEAD.must(store)
    return RevealDuty(operator, pub_key, reveal_message(head.chain_id, height, head.beacon))


def apply_reveal(ctx: Context, block: Block) -> TxResult | None:
    """Make the beacon of this block, and return the result of the reveal; None where the block has none."""
    if block.reveal is None:
        return None
    duty = get_reveal_duty(ctx.store, block.proposer, block.height)
    proof = block.reveal.proof
    if duty is None or not ctx.crypto.reveal(duty.pub_key, duty.message, proof):
        refusal = Refusal(BAD_PROOF, "proof", "is not what this block begins with")
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
    """Let a key count after ``beacon_delay`` blocks; of the others only the one that counts now stays until then.

    So nobody chooses between several keys when it comes to it. Return it, and the keys that are dropped.
    """
    validator = VALIDATORS.must(ctx.store, operator)
    counting = validator.beacon_key(ctx.height)
    kept = [beacon for beacon in validator.beacon_keys if beacon.key == counting]
    added = BeaconKey(key, ctx.height + ctx.block.params.of(RegistryParams).beacon_delay)
    VALIDATORS.update(ctx.store, operator, beacon_keys=(*kept, added))
    BEACON_KEYS.mark(ctx.store, key)
    return added, _dropped(validator, kept)


def revoke_beacon_key(ctx: Context, operator: str, key: bytes) -> tuple[bytes, ...]:
    """Let a key count no more; where it counted, the one before it does not come back, for a choice between two.

    Return all keys that are dropped.
    """
    validator = VALIDATORS.must(ctx.store, operator)
    counted = validator.beacon_key(ctx.height) == key
    left = tuple(
        beacon
        for beacon in validator.beacon_keys
        if beacon.key != key and not (counted and beacon.counts_from <= ctx.height)
    )
    VALIDATORS.update(ctx.store, operator, beacon_keys=left)
    return _dropped(validator, left)


def _dropped(before: Validator, kept: Iterable[BeaconKey]) -> tuple[bytes, ...]:
    stay = tuple(kept)
    return tuple(beacon.key for beacon in before.beacon_keys if beacon not in stay)

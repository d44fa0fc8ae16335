"""The jail of the consensus: the only place that jails a validator, or frees it.

A jailed validator backs no orders at once, and leaves the validator set with the block
(:mod:`chain.state_machine.staking.stakes`). What it has sold is served, or paid from its stake, which stays liable. A
validator that panels found at fault gets no matches for a time, but keeps its power
(:mod:`chain.state_machine.registry.members`).
"""

from chain.state_machine.context import Context
from chain.state_machine.queue import QueueEntry, schedule
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.slashing.tables import MISSED_BITS, MISSED_COUNTS, SIGNING_INFOS, SLASH_DUE
from chain.state_machine.staking.cuts import get_slashable_stake, slash_stake
from chain.state_machine.staking.gas import STAKE_GAS
from chain.state_machine.staking.stakes import set_jailed
from chain.state_machine.staking.tables import REDELEGATION_COUNTS, VALIDATOR_STAKES, is_bonded
from chain.state_machine.store import Overlay
from chain.state_machine.tables import number_of
from domain.genesis import POWER_REDUCTION
from domain.slashing.events import JailBegun, SigningStarted, StakeSlashed
from domain.slashing.moves import FAULT_BURN
from domain.slashing.params import SlashingParams
from domain.slashing.records import Fault, SigningInfo
from domain.staking.records import ONE

UPDATE_BLOCKS = 2
"""Blocks from a change of the validator set to the first block that the changed set signs."""


# --- the window of a validator -------------------------------------------------------------------


def start_window(ctx: Context, operator: str, start_height: int) -> None:
    """Count the absences of a validator anew, from a height on."""
    address = VALIDATORS.must(ctx.store, operator).cons_address
    if SIGNING_INFOS.get(ctx.store, address) is None:
        SIGNING_INFOS.put(ctx.store, SigningInfo(address, operator, 0))
    window = ctx.block.params.of(SlashingParams).signed_blocks_window
    _set_window(ctx.store, address, start_height, window)
    ctx.emit(SigningStarted(operator, start_height, window))


def stop_window(ctx: Context, operator: str) -> None:
    """Count no absences of a validator until its window starts again."""
    _set_window(ctx.store, VALIDATORS.must(ctx.store, operator).cons_address, 0, 0)


def _set_window(store: Overlay, address: bytes, start_height: int, window: int) -> None:
    SIGNING_INFOS.update(store, address, start_height=start_height, window=window)
    MISSED_COUNTS.delete(store, address)
    for _, chunk in list(MISSED_BITS.keys(store, address)):
        MISSED_BITS.delete(store, address, number_of(chunk))


def on_bonded(ctx: Context, operator: str) -> None:
    """Watch a validator from the first block that it has to sign."""
    start_window(ctx, operator, ctx.height + UPDATE_BLOCKS)


# --- jail and slash ------------------------------------------------------------------------------


def jail(ctx: Context, operator: str, fault: Fault, until: int) -> None:
    """Jail a validator until a time (chain clock). After a double signature it is tombstoned as well."""
    info = SIGNING_INFOS.must(ctx.store, VALIDATORS.must(ctx.store, operator).cons_address)
    stop_window(ctx, operator)
    SIGNING_INFOS.update(
        ctx.store,
        info.cons_address,
        jailed_until=until,
        tombstoned=info.tombstoned or fault is Fault.DOUBLE_SIGN,
    )
    ctx.emit(JailBegun(operator, fault, until))
    set_jailed(ctx, operator, jailed=True)


def unjail(ctx: Context, operator: str) -> None:
    """Free a validator. If the set had no other candidate, the validator never left it, and is watched again."""
    set_jailed(ctx, operator, jailed=False)
    if is_bonded(VALIDATOR_STAKES.must(ctx.store, operator)):
        start_window(ctx, operator, ctx.height)


def slash_fraction(ctx: Context, operator: str, fault: Fault, power: int, fraction: int, since: int) -> None:
    """Let a validator lose a fraction (units of 10^-18) of the stake that had this power, at the next due work.

    The loss reaches coins that were behind the validator at the time ``since`` (chain clock).
    """
    amount = power * POWER_REDUCTION * fraction // ONE
    schedule(ctx, ctx.clock, SLASH_DUE, operator, fault, amount, max(0, since))


def on_slash(ctx: Context, entry: QueueEntry) -> None:
    """Slash a validator, and burn the coins. It cannot lose more than what is left."""
    operator, fault, amount, since = entry.text(0), *map(entry.number, (1, 2, 3))
    amount = min(amount, get_slashable_stake(ctx.store, operator, since))
    if amount:
        slash_stake(ctx, operator, amount, since, FAULT_BURN)
        ctx.emit(StakeSlashed(operator, fault, amount))


def weigh_slash(ctx: Context, entry: QueueEntry) -> int:
    """Return the gas of a slash, which walks over the redelegations from the validator."""
    return 2 * STAKE_GAS * (REDELEGATION_COUNTS.get(ctx.store, entry.text(0)) + 1)

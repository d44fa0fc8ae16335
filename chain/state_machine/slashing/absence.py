"""Absence: which blocks of its window each validator missed, and the jail of those that missed too many.

A validator without missed blocks in its window costs one read per block, and nothing is written. A bit stands for each
block of the window, in chunks, so that a missed block changes few bytes.
"""

from chain.state_machine.context import Context
from chain.state_machine.registry.beacon import get_reveal_duty
from chain.state_machine.slashing.jail import jail, slash_fraction, start_window
from chain.state_machine.slashing.tables import MISSED_BITS, MISSED_COUNTS, SIGNING_INFOS, UNREVEALED
from chain.state_machine.staking.stakes import choose_set
from chain.state_machine.store import Overlay
from domain.block import Vote
from domain.node.params import NodeParams
from domain.slashing.params import SlashingParams
from domain.slashing.records import Fault, SigningInfo
from domain.staking.records import ONE

CHUNK = 1_024
"""Number of blocks whose bits are stored together."""
_HALF = ONE // 2
_STEPS = 2
"""Largest steps of the clock since coins could leave that still gave power to the block whose votes count."""


def missed_max(params: SlashingParams) -> int:
    """Return how many blocks of the window a validator may miss; the least part is rounded to whole blocks."""
    signed = (params.signed_blocks_window * params.min_signed_per_window + _HALF) // ONE
    return params.signed_blocks_window - signed


def count_votes(ctx: Context) -> None:
    """Count who voted for the last block and who did not, and jail those that missed too many blocks.

    A proposer that did not make the reveal that it owed counts as absent in its block.
    """
    unrevealed = UNREVEALED.get(ctx.store)
    _note_reveal(ctx, unrevealed)
    params = ctx.block.params.of(SlashingParams)
    counts = {address: count for (address,), count in MISSED_COUNTS.scan(ctx.store)}
    most = missed_max(params)
    height = ctx.height - 1
    for vote in ctx.block.votes:
        info = SIGNING_INFOS.get(ctx.store, vote.validator)
        if info is None or not info.start_height or height < info.start_height:
            continue
        if info.window != params.signed_blocks_window:
            start_window(ctx, info.operator, ctx.height)
            continue
        is_missed = not vote.signed or vote.validator == unrevealed
        count = counts.get(vote.validator, 0)
        if not (is_missed or count):
            continue
        index = height - info.start_height
        if _set_bit(ctx.store, vote.validator, index % info.window, is_missed):
            count += 1 if is_missed else -1
            _set_count(ctx.store, vote.validator, count)
        if count > most and index + 1 >= info.window:
            _punish(ctx, info, vote, params)


def _note_reveal(ctx: Context, before: bytes | None) -> None:
    """Note the proposer of this block if it owed a reveal and made none."""
    proposer = ctx.block.proposer
    if not ctx.revealed and get_reveal_duty(ctx.store, proposer, ctx.height) is not None:
        UNREVEALED.set(ctx.store, proposer)
    elif before is not None:
        UNREVEALED.delete(ctx.store)


def _set_bit(store: Overlay, address: bytes, index: int, is_missed: bool) -> bool:
    """Set the bit of a block of the window, and return whether it changed."""
    chunk, at = divmod(index, CHUNK)
    before = int.from_bytes(MISSED_BITS.get(store, address, chunk) or b"")
    bits = before | 1 << at if is_missed else before & ~(1 << at)
    if bits == before:
        return False
    if bits:
        MISSED_BITS.set(store, bits.to_bytes((bits.bit_length() + 7) // 8), address, chunk)
    else:
        MISSED_BITS.delete(store, address, chunk)
    return True


def _set_count(store: Overlay, address: bytes, count: int) -> None:
    if count:
        MISSED_COUNTS.set(store, count, address)
    else:
        MISSED_COUNTS.delete(store, address)


def _punish(ctx: Context, info: SigningInfo, vote: Vote, params: SlashingParams) -> None:
    """Jail and slash an absent validator. The last candidate goes free, because the chain needs its set."""
    if not _has_other(ctx.store, info.operator):
        start_window(ctx, info.operator, ctx.height)
        return
    jail(ctx, info.operator, Fault.DOWNTIME, ctx.clock + params.downtime_jail_duration)
    since = ctx.clock - _STEPS * ctx.block.params.of(NodeParams).clock_step_max
    slash_fraction(ctx, info.operator, Fault.DOWNTIME, vote.power, params.slash_fraction_downtime, since)


def _has_other(store: Overlay, operator: str) -> bool:
    """Return whether there is a candidate for the set beside a validator."""
    return any(candidate != operator for candidate in choose_set(store, 2))

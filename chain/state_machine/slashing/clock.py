"""The chain clock at a past height, for evidence, which has a header time.

The clock runs as fast as header times, except after a halt of the chain. So the state keeps by how much the clock is
behind header times, from each height at which this changed. Entries that only expired evidence would need are removed.
"""

from dataclasses import replace

from chain.state_machine.context import HEAD, NS, Context
from chain.state_machine.slashing.tables import CLOCK_LAG, PAST_LAGS, ClockLag
from chain.state_machine.store import Overlay
from domain.slashing.params import SlashingParams

_DROPPED_AT_ONCE = 2


def start_clock(store: Overlay) -> None:
    """Note the lag of the clock at genesis."""
    head = HEAD.must(store)
    CLOCK_LAG.put(store, ClockLag(0, head.time_ns - head.clock_ns))


def note_clock(ctx: Context) -> None:
    """Note by how much the clock of this block is behind header times, if that changed."""
    head = HEAD.must(ctx.store)
    last, lag_ns = CLOCK_LAG.must(ctx.store), head.time_ns - head.clock_ns
    if lag_ns == last.lag_ns:
        return
    oldest = ctx.clock - ctx.block.params.of(SlashingParams).evidence_max_age
    for entry in PAST_LAGS.scan(ctx.store, limit=_DROPPED_AT_ONCE):
        if entry.until < oldest:
            PAST_LAGS.delete(ctx.store, entry.height)
    PAST_LAGS.put(ctx.store, replace(last, until=ctx.clock))
    CLOCK_LAG.put(ctx.store, ClockLag(ctx.height, lag_ns))


def clock_at(store: Overlay, height: int, time_ns: int) -> int:
    """Return the chain clock (seconds) of the block at a height with this header time."""
    lag = CLOCK_LAG.must(store)
    if height < lag.height:
        before = [entry for entry in PAST_LAGS.scan(store) if entry.height <= height]
        lag = before[-1] if before else PAST_LAGS.scan(store, limit=1)[0]
    return (time_ns - lag.lag_ns) // NS

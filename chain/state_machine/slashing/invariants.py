"""Invariants of slashing."""

from collections import Counter
from itertools import pairwise

from chain.state_machine.context import Running
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.slashing.tables import (
    CLOCK_LAG,
    EVIDENCE,
    MISSED_BITS,
    MISSED_COUNTS,
    PAST_LAGS,
    SIGNING_INFOS,
)
from chain.state_machine.staking.tables import VALIDATOR_STAKES, is_bonded
from chain.state_machine.store import Overlay


def check_watched(store: Overlay, _: Running) -> None:
    """Check that exactly the validators that are bonded and not jailed are watched, each with one info."""
    infos = {info.operator: info for info in SIGNING_INFOS.scan(store)}
    for stake in VALIDATOR_STAKES.scan(store):
        info = infos.pop(stake.operator, None)
        is_watched = info is not None and info.start_height > 0
        ensure(
            is_watched == (is_bonded(stake) and not stake.jailed), f"{stake.operator} is watched, or is not, wrongly"
        )
        ensure(info is not None or not stake.jailed, f"{stake.operator} is jailed without a record")
        if info is not None:
            address = VALIDATORS.must(store, stake.operator).cons_address
            ensure(info.cons_address == address, f"{stake.operator} has another consensus address")
            ensure((info.window > 0) == is_watched, f"{stake.operator} has a window, or has none, wrongly")
    ensure(not infos, "someone has a signing info that is no validator")


def check_jails(store: Overlay, _: Running) -> None:
    """Check that a jailed validator has an end of its jail, and that a tombstoned one is jailed for its evidence."""
    proven = {evidence.operator for evidence in EVIDENCE.scan(store)}
    for info in SIGNING_INFOS.scan(store):
        is_jailed = VALIDATOR_STAKES.must(store, info.operator).jailed
        ensure(not is_jailed or info.jailed_until > 0, f"the jail of {info.operator} has no end")
        ensure(is_jailed or not info.tombstoned, f"{info.operator} is tombstoned, but is free")
        ensure(info.tombstoned == (info.operator in proven), f"{info.operator} is tombstoned without evidence")


def check_missed(store: Overlay, _: Running) -> None:
    """Check that the number of missed blocks is that of the bits, and that they are in the window of a validator."""
    bits: Counter[bytes] = Counter()
    for address, chunk in MISSED_BITS.keys(store):
        number = int.from_bytes(MISSED_BITS.get(store, address, int.from_bytes(chunk)) or b"")
        ensure(number > 0, "a chunk of missed blocks is empty")
        bits[address] += number.bit_count()
    counts = {address: count for (address,), count in MISSED_COUNTS.scan(store)}
    ensure(counts == bits, "the number of missed blocks is wrong")
    for address, count in counts.items():
        info = SIGNING_INFOS.must(store, address)
        ensure(count <= info.window, f"{info.operator} missed more blocks than its window has")


def check_clock_lags(store: Overlay, _: Running) -> None:
    """Check that the lags of the clock rise, and that each past one has an end."""
    lags = [*PAST_LAGS.scan(store), CLOCK_LAG.must(store)]
    for before, after in pairwise(lags):
        rises = before.height < after.height and before.lag_ns < after.lag_ns
        ensure(rises and before.until > 0, "the clock caught up with header times")
    ensure(lags[-1].until == 0, "the lag of the last block has an end")


INVARIANTS = Invariants(whole=(check_watched, check_jails, check_missed, check_clock_lags))

"""Invariants of staking: shares and tokens, pots, pools and their entries, redelegations, and the validator set."""

from collections import defaultdict

from chain.state_machine.context import Running
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.ledger.invariants import ensure_pot
from chain.state_machine.queue import get_entries
from chain.state_machine.staking.stakes import is_candidate
from chain.state_machine.staking.tables import (
    CANDIDATES,
    DELEGATIONS,
    DELEGATIONS_OF,
    POWERS_GIVEN,
    REDELEGATION_COUNTS,
    REDELEGATION_DUE,
    REDELEGATIONS,
    SET_CHANGED,
    UNBONDED_DUE,
    UNBONDING_DUE,
    UNBONDING_POOLS,
    UNBONDINGS,
    VALIDATOR_STAKES,
    compute_power,
    is_bonded,
    rank_of,
)
from chain.state_machine.store import Overlay
from chain.state_machine.tables import make_key
from domain.staking.moves import STAKES_POT, UNBONDED_POT
from domain.staking.records import BondStatus


def check_stake_pots(store: Overlay, _: Running) -> None:
    """Check that both pots have what the tokens of validators and the unbonding pools say."""
    bonded = unbonded = 0
    for stake in VALIDATOR_STAKES.scan(store):
        if is_bonded(stake):
            bonded += stake.tokens
        else:
            unbonded += stake.tokens
    ensure_pot(store, STAKES_POT, bonded)
    ensure_pot(store, UNBONDED_POT, unbonded + sum(pool.tokens for pool in UNBONDING_POOLS.scan(store)))


def check_shares(store: Overlay, _: Running) -> None:
    """Check that the delegations of a validator have all its shares, and that locked shares are those that moved."""
    shares: dict[str, int] = defaultdict(int)
    locked: dict[tuple[str, str], int] = defaultdict(int)
    for entry in REDELEGATIONS.scan(store):
        locked[entry.target, entry.delegator] += entry.shares
    pairs = []
    for delegation in DELEGATIONS.scan(store):
        key = (delegation.validator, delegation.delegator)
        pairs.append((delegation.delegator, delegation.validator))
        shares[delegation.validator] += delegation.shares
        ensure(delegation.shares > 0, "a delegation has no shares")
        ensure(delegation.locked == locked.pop(key, 0), "the locked shares are not those of redelegations")
        ensure(delegation.locked <= delegation.shares, "more shares are locked than there are")
    ensure(not any(locked.values()), "a redelegation locks shares of no delegation")
    known = [(key.decode(), operator.decode()) for key, operator in DELEGATIONS_OF.keys(store)]
    ensure(sorted(pairs) == sorted(known), "the index of delegations is wrong")
    for stake in VALIDATOR_STAKES.scan(store):
        ensure(stake.shares == shares.pop(stake.operator, 0), f"the shares of {stake.operator} are not all delegated")
        ensure(stake.tokens >= 0, f"the tokens of {stake.operator} are below zero")
    ensure(not shares, "someone delegates to a validator that does not exist")


def check_unbonding(store: Overlay, _: Running) -> None:
    """Check that the entries of a pool have all its claims, and that each entry is paid some day."""
    due = {make_key(0, *entry.parts) for entry in get_entries(store) if entry.kind == UNBONDING_DUE.number}
    claims: dict[tuple[str, int], int] = defaultdict(int)
    for entry in UNBONDINGS.scan(store):
        claims[entry.validator, entry.pool] += entry.claims
        key = make_key(0, entry.delegator, entry.validator, entry.height, entry.pool)
        ensure(key in due, "an unbonding entry has no end")
    for pool in UNBONDING_POOLS.scan(store):
        ensure(pool.claims == claims.pop((pool.validator, pool.number), 0), "claims of a pool belong to no entry")
    ensure(not claims, "an unbonding entry has no pool")


def check_redelegations(store: Overlay, _: Running) -> None:
    """Check the number of redelegations of each source, and that each of them ends."""
    due = {make_key(0, *entry.parts) for entry in get_entries(store) if entry.kind == REDELEGATION_DUE.number}
    counts: dict[str, int] = defaultdict(int)
    for entry in REDELEGATIONS.scan(store):
        counts[entry.source] += 1
        key = make_key(0, entry.source, entry.delegator, entry.target, entry.height)
        ensure(key in due, "a redelegation has no end")
    for (source,), count in REDELEGATION_COUNTS.scan(store):
        ensure(count == counts.pop(source.decode(), 0), "the number of redelegations is wrong")
    ensure(not counts, "redelegations are not counted")


def check_validator_set(store: Overlay, _: Running) -> None:
    """Check the candidates, that the bonded validators are those of the set, and that each unbonding ends."""
    due = [(entry.text(0), entry.time) for entry in get_entries(store) if entry.kind == UNBONDED_DUE.number]
    candidates = set(CANDIDATES.keys(store))
    for stake in VALIDATOR_STAKES.scan(store):
        key = tuple(part.to_bytes(8) for part in rank_of(stake))
        is_listed = key in candidates
        candidates.discard(key)
        ensure(is_listed == is_candidate(store, stake), f"{stake.operator} is no candidate, or is not listed")
        power = POWERS_GIVEN.get(store, stake.operator)
        ensure(is_bonded(stake) == (power > 0), f"{stake.operator} is bonded without power, or has power without bond")
        is_told = SET_CHANGED.has(store) or not power or power == compute_power(stake.tokens)
        ensure(is_told, f"the consensus has another power of {stake.operator}")
        if stake.status is BondStatus.UNBONDING:
            ensure((stake.operator, stake.unbonding_time) in due, f"{stake.operator} unbonds for ever")
    ensure(not candidates, "a candidate has another power")
    ensure(any(True for _ in POWERS_GIVEN.keys(store)), "the validator set is empty")


INVARIANTS = Invariants(
    whole=(check_stake_pots, check_shares, check_unbonding, check_redelegations, check_validator_set)
)

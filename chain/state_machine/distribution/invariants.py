"""Invariants of distribution: what is owed is in the pot, and powers are those of the consensus."""

from collections import defaultdict

from chain.state_machine.context import Running
from chain.state_machine.distribution.tables import REWARDS, STARTS, get_rewards, get_totals
from chain.state_machine.invariant import Invariants, ensure
from chain.state_machine.ledger.invariants import ensure_pot
from chain.state_machine.ledger.tables import POTS
from chain.state_machine.staking.tables import DELEGATIONS, POWERS_GIVEN
from chain.state_machine.store import Overlay
from domain.distribution.moves import REWARDS_POT
from domain.distribution.records import ATTOS, RATIO_ONE
from domain.ledger.moves import FEES_POT


def check_rewards_pot(store: Overlay, _: Running) -> None:
    """Check that the pot has all rewards and the dust, to the last atto, and that no fee waits behind a block."""
    totals = get_totals(store)
    owed = totals.dust
    for rewards in REWARDS.scan(store):
        ensure(rewards.start <= totals.per_power, f"{rewards.operator} was paid for blocks that do not exist")
        owed += rewards.commission + rewards.outstanding + rewards.power * (totals.per_power - rewards.start)
    ensure(totals.dust < ATTOS, "the dust of the community pool is a whole coin")
    ensure(owed % ATTOS == 0, "a part of an atto was made or lost")
    ensure_pot(store, REWARDS_POT, owed // ATTOS)
    ensure(POTS.get(store, FEES_POT.name) == 0, "fees were not shared")


def check_powers(store: Overlay, _: Running) -> None:
    """Check that the powers by which validators earn are those that the consensus was given."""
    earning = {rewards.operator: rewards.power for rewards in REWARDS.scan(store) if rewards.power}
    given = {operator.decode(): power for (operator,), power in POWERS_GIVEN.scan(store)}
    ensure(earning == given, "validators earn by other powers than they have")
    ensure(sum(given.values()) == get_totals(store).power, "the sum of the powers is wrong")


def check_delegators(store: Overlay, _: Running) -> None:
    """Check that the rewards of all delegations of a validator are outstanding, and that only delegations have them."""
    owed: dict[str, int] = defaultdict(int)
    starts = {(validator.decode(), delegator.decode()): ratio for (validator, delegator), ratio in STARTS.scan(store)}
    for delegation in DELEGATIONS.scan(store):
        ratio = get_rewards(store, delegation.validator).ratio
        start = starts.pop((delegation.validator, delegation.delegator), 0)
        ensure(start <= ratio, "a delegation was paid more than its validator earned")
        owed[delegation.validator] += delegation.shares * (ratio - start) // RATIO_ONE
    ensure(not starts, "rewards start for a delegation that does not exist")
    for rewards in REWARDS.scan(store):
        enough = owed.pop(rewards.operator, 0) <= rewards.outstanding
        ensure(enough, f"the delegators of {rewards.operator} are owed more than is outstanding")
    ensure(not any(owed.values()), "a validator without a record owes rewards")


INVARIANTS = Invariants(whole=(check_rewards_pot, check_powers, check_delegators))

"""Mutants of chain_staking."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import LEAVING, STAKE_SET

_STAKE_CUTS = "tests/unit/chain/state_machine/staking/test_cuts.py"
_DELEGATING = "tests/unit/chain/state_machine/staking/test_delegations.py"

MUTANTS = (
    Mutant(
        "empty-set",
        "a set without candidates becomes empty, and the chain stops",
        "chain/state_machine/staking/stakes.py",
        "    if not chosen:\n        return ()\n",
        "",
        (
            "tests/unit/chain/state_machine/registry/test_genesis_and_powers.py::test_the_set_never_becomes_empty",
            f"{STAKE_SET}::test_the_last_set_stays_when_there_is_no_candidate",
        ),
    ),
    Mutant(
        "sold-stake-leaves",
        "stake that backs a running leg is paid to its delegators",
        "chain/state_machine/staking/delegations.py",
        "    if VALIDATOR_STAKES.must(ctx.store, operator).tokens < get_reserved(ctx, operator):\n",
        "    if VALIDATOR_STAKES.must(ctx.store, operator).tokens < 0:\n",
        (f"{LEAVING}::test_sold_stake_does_not_leave_before_the_leg_is_over",),
    ),
    Mutant(
        "sold-stake-moves",
        "stake that backs a running leg is redelegated",
        "chain/state_machine/staking/handlers.py",
        "    if stake.tokens - amount < reserved:\n",
        "    if stake.tokens < reserved:\n",
        (f"{LEAVING}::test_sold_stake_is_not_redelegated",),
    ),
    Mutant(
        "leaving-pays-nothing",
        "a slash does not reach unbonding coins",
        "chain/state_machine/staking/cuts.py",
        "if pool.last_at >= since]",
        "if pool.last_at > 10**18]",
        (f"{LEAVING}::test_stake_that_left_before_the_fault_was_found_pays_its_part",),
    ),
    Mutant(
        "left-before-pays",
        "a slash reaches coins that left before the leg",
        "chain/state_machine/staking/cuts.py",
        "if pool.last_at >= since]",
        "]",
        (f"{LEAVING}::test_stake_that_left_before_the_order_pays_nothing",),
    ),
    Mutant(
        "moved-pays-nothing",
        "a slash does not reach redelegated coins",
        "chain/state_machine/staking/cuts.py",
        "if entry.created_at >= since]",
        "if entry.created_at > 10**18]",
        (f"{_STAKE_CUTS}::test_a_slash_takes_the_same_part_of_all_that_were_there",),
    ),
    Mutant(
        "moved-leaves",
        "redelegated coins can leave their new validator at once",
        "chain/state_machine/staking/delegations.py",
        "worth_of(delegation.shares - delegation.locked,",
        "worth_of(delegation.shares,",
        (f"{_DELEGATING}::test_redelegated_coins_move_at_once_and_stay",),
    ),
    Mutant(
        "last-unit",
        "rounding leaves coins of a slash over",
        "chain/state_machine/staking/shares.py",
        "        amount -= own\n        total -= part\n",
        "",
        (f"{_STAKE_CUTS}::test_a_division_gives_all_and_no_part_more_than_it_is",),
    ),
    Mutant(
        "answered-amounts",
        "an undelegation answers without its amount",
        "chain/state_machine/staking/handlers.py",
        '    ctx.responses.append(("amount", u64(taken)))\n',
        "    pass\n",
        (
            "tests/unit/chain/state_machine/staking/test_delegations.py"
            "::test_undelegations_answer_with_the_coins_that_leave",
        ),
    ),
    Mutant(
        "shares-up",
        "shares are rounded up when they are bought",
        "chain/state_machine/staking/shares.py",
        "    return amount * shares // tokens if tokens else 0\n",
        "    return ceil_div(amount * shares, tokens) if tokens else 0\n",
        (f"{_STAKE_CUTS}::test_shares_round_for_those_who_stay",),
    ),
    Mutant(
        "keyless-proposer",
        "a validator without a beacon key is bonded",
        "chain/state_machine/staking/stakes.py",
        "    return stake.ready and not stake.jailed and enough\n",
        "    return not stake.jailed and enough\n",
        (f"{STAKE_SET}::test_a_new_validator_is_bonded_when_its_key_is_valid",),
    ),
    Mutant(
        "jailed-in-the-block",
        "a jailed validator backs orders until its block ends",
        "chain/state_machine/staking/tables.py",
        "if is_bonded(stake) and not stake.jailed else 0",
        "if is_bonded(stake) else 0",
        (f"{STAKE_SET}::test_a_jailed_validator_backs_nothing_at_once_and_leaves_with_the_block",),
    ),
    Mutant(
        "commission-at-will",
        "a validator changes its commission at any time",
        "chain/state_machine/staking/handlers.py",
        "        if ctx.clock < stake.commission_at + DAY:\n",
        "        if ctx.clock < stake.commission_at:\n",
        (f"{STAKE_SET}::test_the_commission_changes_once_a_day",),
    ),
    Mutant(
        "old-keys-again",
        "a consensus key is registered twice",
        "chain/state_machine/staking/handlers.py",
        "    if OPERATORS.has(ctx.store, sha256(key).digest()[:20]):\n",
        "    if False:\n",
        (f"{STAKE_SET}::test_a_key_of_consensus_is_never_used_twice",),
    ),
    Mutant(
        "younger-first",
        "of two equal validators the younger is bonded",
        "chain/state_machine/staking/tables.py",
        "compute_power(stake.tokens), stake.number",
        "compute_power(stake.tokens), _POWER_MAX - stake.number",
        (f"{STAKE_SET}::test_the_most_powerful_are_bonded_and_of_equal_ones_the_older",),
    ),
    Mutant(
        "old-set",
        "the validator set keeps its size after a proposal made it smaller",
        "chain/state_machine/staking/stakes.py",
        "    if before.of(StakingParams).max_validators != after.of(StakingParams).max_validators:\n",
        "    if False:\n",
        ("tests/unit/chain/attacks/test_voting_twice.py::test_a_smaller_set_is_chosen_in_the_next_block",),
    ),
    Mutant(
        "half-paid-counts",
        "a redelegation pays for one of the two delegations that it changes",
        "chain/state_machine/staking/handlers.py",
        "    return 2 * weigh_delegation(ctx, message, _)\n",
        "    return weigh_delegation(ctx, message, _)\n",
        ("tests/unit/chain/attacks/test_voting_twice.py::test_who_votes_pays_for_counts_that_follow_a_delegation",),
    ),
)

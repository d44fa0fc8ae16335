"""Mutants of chain_distribution."""

from tests.mutants.mutant import Mutant

_REWARDS = "tests/unit/chain/state_machine/distribution/test_rewards.py"
_ATTACKS = "tests/unit/chain/attacks/test_nobody_earns_by_another_ones_fees.py"
_CODE = "chain/state_machine/distribution/rewards.py"

MUTANTS = (
    Mutant(
        "answered-withdrawals",
        "a withdrawal answers without its amount",
        "chain/state_machine/distribution/handlers.py",
        '    ctx.responses.append(("amount", u64(amount)))\n',
        "    pass\n",
        ("tests/unit/chain/app/services/test_distribution.py::test_withdrawals_answer_with_the_coins_that_they_paid",),
    ),
    Mutant(
        "dear-blocks-pay",
        "the validators get the fees that a risen gas price adds",
        _CODE,
        "    kept = (amount - min(amount, get_congestion(ctx))) * ATTOS\n",
        "    kept = amount * ATTOS\n",
        (f"{_ATTACKS}::test_a_proposer_that_fills_its_blocks_to_raise_the_price_pays_for_it",),
    ),
    Mutant(
        "absent-are-paid",
        "a validator that did not vote gets its part",
        _CODE,
        "        REWARDS.put(ctx.store, replace(rewards, start=rewards.start + each))\n",
        "        REWARDS.put(ctx.store, rewards)\n",
        (f"{_REWARDS}::test_a_validator_that_did_not_vote_gets_nothing_and_no_other_one_gets_more",),
    ),
    Mutant(
        "absence-pays-others",
        "those who voted share the part of those who did not",
        _CODE,
        "    each = (shared - most) // totals.power if totals.power else 0\n",
        "    each = (shared - most) // max(1, totals.power - absent_power)\n",
        (f"{_ATTACKS}::test_the_silence_of_one_validator_earns_the_others_nothing",),
    ),
    Mutant(
        "bonus-to-others",
        "the validators that voted share the bonus that the proposer lost",
        _CODE,
        "    each = (shared - most) // totals.power if totals.power else 0\n",
        "    each = (shared - own) // totals.power if totals.power else 0\n",
        (f"{_ATTACKS}::test_the_silence_of_one_validator_earns_the_others_nothing",),
    ),
    Mutant(
        "whole-bonus",
        "the proposer's bonus does not depend on the votes",
        _CODE,
        "params.bonus_proposer_reward * (totals.power - absent_power) // totals.power\n",
        "params.bonus_proposer_reward\n",
        (f"{_REWARDS}::test_a_validator_that_did_not_vote_gets_nothing_and_no_other_one_gets_more",),
    ),
    Mutant(
        "endless-proposer",
        "the proposer's part exceeds the fees if governance says so, and the chain stops",
        _CODE,
        "        own = shared * min(ONE, params.base_proposer_reward + bonus) // ONE\n",
        "        own = shared * (params.base_proposer_reward + bonus) // ONE\n",
        (f"{_REWARDS}::test_the_proposers_part_never_exceeds_the_whole",),
    ),
    Mutant(
        "new-rate-for-the-past",
        "a new commission rate applies to rewards from before it",
        _CODE,
        "        settle(ctx, before.operator, rate=before.commission.rate)\n",
        "        settle(ctx, before.operator, rate=after.commission.rate)\n",
        (f"{_REWARDS}::test_what_was_earned_before_an_edit_has_the_old_commission",),
    ),
    Mutant(
        "paid-twice",
        "a delegation may withdraw the same rewards again",
        _CODE,
        "    _start(ctx, delegator, rewards)\n    amount, dust",
        "    amount, dust",
        (_REWARDS,),
    ),
    Mutant(
        "rewards-without-shares",
        "what the last delegation leaves stays outstanding for ever",
        _CODE,
        "    if rewards.outstanding and not VALIDATOR_STAKES.must(ctx.store, operator).shares:\n",
        "    if False:\n",
        (f"{_REWARDS}::test_what_rounding_leaves_outstanding_goes_to_the_pool_with_the_last_delegation",),
    ),
    Mutant(
        "late-delegation-is-paid",
        "a new delegation gets rewards from before it",
        _CODE,
        "    _start(ctx, delegator, rewards, ended=not shares)\n",
        "    _start(ctx, delegator, rewards, ended=True)\n",
        (_REWARDS, _ATTACKS),
    ),
    Mutant(
        "power-from-before",
        "a validator earns by its new power for blocks from before",
        _CODE,
        "    rewards = settle(ctx, operator)\n    totals = get_totals(ctx.store)\n"
        "    _put(ctx, replace(rewards, power=power,",
        "    rewards = get_rewards(ctx.store, operator)\n    totals = get_totals(ctx.store)\n"
        "    _put(ctx, replace(rewards, power=power,",
        (f"{_REWARDS}::test_shares_of_power_follow_the_validator_set",),
    ),
    Mutant(
        "pool-below-zero",
        "governance spends more than the community pool has, and the chain stops",
        "chain/state_machine/distribution/community.py",
        "    if amount > held:\n",
        "    if False:\n",
        (f"{_REWARDS}::test_anyone_may_give_and_governance_may_spend",),
    ),
)

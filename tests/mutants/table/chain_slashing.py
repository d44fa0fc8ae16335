"""Mutants of chain_slashing."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import ATTACKS

_ABSENCE = "tests/unit/chain/state_machine/slashing/test_absence.py::test_"
_TWICE = "tests/unit/chain/state_machine/slashing/test_misbehaviour.py::test_"
_ATTACK = f"{ATTACKS}/test_validators_that_sign_twice_or_not_at_all.py::test_"
_IN = "chain/state_machine/slashing"

MUTANTS = (
    Mutant(
        "punished-again",
        "a second proof of two signatures slashes again",
        f"{_IN}/misbehaviour.py",
        "    if info is None or info.tombstoned:\n",
        "    if info is None:\n",
        (f"{_TWICE}a_second_proof_takes_nothing_more",),
    ),
    Mutant(
        "old-evidence",
        "evidence of any age counts",
        f"{_IN}/misbehaviour.py",
        "    if ctx.clock - clock > params.evidence_max_age:\n        return\n",
        "",
        (f"{_TWICE}evidence_beyond_its_age_is_ignored",),
    ),
    Mutant(
        "unbonded-pays-for-evidence",
        "coins that came after the unbonding pay for an old signature",
        f"{_IN}/misbehaviour.py",
        "    if VALIDATOR_STAKES.must(ctx.store, info.operator).status is BondStatus.UNBONDED:\n        return\n",
        "",
        (f"{_TWICE}a_validator_whose_unbonding_is_over_is_ignored",),
    ),
    Mutant(
        "left-before-the-height",
        "coins that left in the block before the signature do not pay, although they gave power",
        f"{_IN}/misbehaviour.py",
        "    since = clock - ctx.block.params.of(NodeParams).clock_step_max\n",
        "    since = clock\n",
        (f"{_TWICE}coins_that_left_in_the_block_before_still_gave_power",),
    ),
    Mutant(
        "clock-of-evidence",
        "the clock of a past height ignores halts of the chain",
        f"{_IN}/clock.py",
        "    if height < lag.height:\n",
        "    if height < 0:\n",
        (f"{_TWICE}the_clock_of_a_height_is_known_across_halts",),
    ),
    Mutant(
        "lags-stay",
        "lags of the clock are never removed",
        f"{_IN}/clock.py",
        "        if entry.until < oldest:\n",
        "        if entry.until < 0:\n",
        (f"{_TWICE}lags_that_no_evidence_needs_are_removed",),
    ),
    Mutant(
        "jail-too-early",
        "a new validator is jailed before its window is full",
        f"{_IN}/absence.py",
        "        if count > most and index + 1 >= info.window:\n",
        "        if count > most:\n",
        (f"{_ABSENCE}a_new_validator_has_a_whole_window",),
    ),
    Mutant(
        "half-is-too-much",
        "a validator that signs half of its window is jailed",
        f"{_IN}/absence.py",
        "        if count > most and",
        "        if count >= most and",
        (f"{_ABSENCE}half_of_the_window_may_be_missed_for_ever",),
    ),
    Mutant(
        "votes-of-before",
        "votes of a validator's last time in the set count",
        f"{_IN}/absence.py",
        " or not info.start_height or height < info.start_height:\n",
        " or not info.start_height:\n",
        (f"{_ABSENCE}votes_of_the_time_before_do_not_count",),
    ),
    Mutant(
        "missed-for-ever",
        "missed blocks never leave the window",
        f"{_IN}/absence.py",
        "    bits = before | 1 << at if is_missed else before & ~(1 << at)\n",
        "    bits = before | 1 << at if is_missed else before\n",
        (f"{_ABSENCE}what_it_missed_leaves_the_window",),
    ),
    Mutant(
        "last-candidate-jailed",
        "the last candidate for the set is jailed for absence",
        f"{_IN}/absence.py",
        "    if not _has_other(ctx.store, info.operator):\n",
        "    if False:\n",
        (f"{_ABSENCE}the_last_candidate_is_not_jailed",),
    ),
    Mutant(
        "another-window",
        "a changed window reads the bits of the old one",
        f"{_IN}/absence.py",
        "        if info.window != params.signed_blocks_window:\n",
        "        if False:\n",
        (f"{_ABSENCE}another_window_begins_anew",),
    ),
    Mutant(
        "no-reveal-no-absence",
        "a proposer that owes a reveal counts as present",
        f"{_IN}/absence.py",
        "        is_missed = not vote.signed or vote.validator == unrevealed\n",
        "        is_missed = not vote.signed\n",
        (f"{_ABSENCE}a_proposer_that_owes_a_reveal_counts_as_absent",),
    ),
    Mutant(
        "unjailed-early",
        "a validator frees itself before its jail ends",
        f"{_IN}/handlers.py",
        "    if ctx.clock < info.jailed_until:\n",
        "    if ctx.clock < 0:\n",
        (f"{_ATTACK}others_cannot_unjail_a_validator_and_it_cannot_do_so_early",),
    ),
    Mutant(
        "unjailed-unwatched",
        "a validator that never left the set is not watched after its jail",
        f"{_IN}/jail.py",
        "    if is_bonded(VALIDATOR_STAKES.must(ctx.store, operator)):\n",
        "    if False:\n",
        (f"{_ABSENCE}a_jail_that_left_no_candidate_ends_in_the_set",),
    ),
    Mutant(
        "window-across-jails",
        "the missed blocks of a jailed validator stay",
        f"{_IN}/jail.py",
        "    MISSED_COUNTS.delete(store, address)\n",
        "",
        (f"{_ABSENCE}a_validator_that_missed_more_than_half_of_its_window_is_jailed_and_slashed",),
    ),
    Mutant(
        "slash-beyond-stake",
        "a slash of more than is left stops the chain",
        f"{_IN}/jail.py",
        "    amount = min(amount, get_slashable_stake(ctx.store, operator, since))\n",
        "",
        (f"{_TWICE}a_slash_takes_at_most_what_is_left",),
    ),
)

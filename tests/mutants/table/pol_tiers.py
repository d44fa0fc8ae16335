"""Mutants of the tier sampled: its rules, and what the chain does by them."""

from tests.mutants.mutant import Mutant

_RULES = "tests/unit/pol/rules/tiers/test_sampled.py::test_"
_CHAIN = "tests/unit/chain/attacks/test_rounds_that_are_not_drawn.py::test_"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "sampled-chance",
        "the chance of a panel leaves a bad round no margin",
        "pol/rules/tiers/sampled.py",
        "MARGIN = 12_000\n",
        "MARGIN = 9_000\n",
        (f"{_RULES}a_bad_round_that_hopes_for_no_panel_loses_on_average",),
    ),
    Mutant(
        "sampled-bond",
        "a wrong share risks less if its round is drawn more rarely",
        "pol/rules/tiers/sampled.py",
        "ceil_div(2 * BPS, rate) - 1",
        "ceil_div(BPS, rate) - 1",
        (f"{_RULES}a_wrong_share_risks_as_much_as_in_exact",),
    ),
    Mutant(
        "sampled-committed",
        "a share with a bond that is too small is committed",
        "chain/state_machine/proof/handlers/commit_traces.py",
        "is_backed = claim.multiple >= ",
        "is_backed = True or claim.multiple >= ",
        (f"{_CHAIN}a_share_with_a_bond_that_is_too_small_for_the_chance_is_not_committed",),
    ),
    Mutant(
        "sampled-bond-left",
        "the chance is computed from the job bond that the leg began with",
        "chain/state_machine/proof/panels.py",
        "panel_rate(order, leg, job_bond.amount if job_bond is not None else 0)",
        "panel_rate(order, leg, leg.job_bond)",
        (f"{_CHAIN}a_validator_whose_job_bond_is_used_up_hides_behind_no_lot",),
    ),
    Mutant(
        "sampled-rejected",
        "a round with a rejected share may have no panel",
        "chain/state_machine/proof/panels.py",
        "any(share.state is ShareState.REJECTED for share in shares)",
        "False",
        (f"{_CHAIN}a_round_with_a_rejected_share_has_no_lot_but_a_panel",),
    ),
    Mutant(
        "sampled-repeated",
        "a round that repeats a void one may have no panel",
        "chain/state_machine/proof/panels.py",
        "if before is not None and before.void:",
        "if before is not None and not before.void:",
        (f"{_CHAIN}a_round_that_repeats_a_void_one_is_recomputed",),
    ),
    Mutant(
        "sampled-recalled",
        "a share that comes after the lot brings no panel",
        "chain/state_machine/proof/handlers/include_share.py",
        "    doubt_round(ctx, ORDERS",
        "    (ctx, ORDERS",
        (f"{_CHAIN}a_rejected_share_that_was_hidden_until_no_panel_was_drawn_brings_one",),
    ),
    Mutant(
        "sampled-included",
        "a provider includes a share with a bond that is too small",
        "chain/state_machine/proof/handlers/include_share.py",
        "if message.multiple < least:",
        "if message.multiple < 1:",
        (f"{_CHAIN}a_provider_cannot_include_a_share_with_such_a_bond_either",),
    ),
    Mutant(
        "sampled-anyone",
        "only parties and validators challenge a round that was not drawn",
        "pol/rules/tiers/sampled.py",
        "anyone=True, ",
        "",
        (f"{_CHAIN}any_account_with_a_bond_challenges_a_round_without_a_panel_and_is_paid",),
    ),
    Mutant(
        "sampled-wait",
        "a leg waits as long as its order asked for, whatever its tier",
        "chain/state_machine/proof/handlers/close_round.py",
        "challenges_of(order, leg).wait",
        "order.challenges.wait",
        (f"{_CHAIN}each_leg_of_an_order_has_the_rules_of_its_own_tier",),
    ),
)

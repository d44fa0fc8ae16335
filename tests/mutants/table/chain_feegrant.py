"""Mutants of chain_feegrant."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import FEE_GRANTS, FEE_PAYS

_CODE = "chain/state_machine/feegrant/grants.py"

MUTANTS = (
    Mutant(
        "grant-not-counted-in-mempool",
        "the mempool takes more transactions than a grant pays for",
        _CODE,
        "    FEE_GRANTS.put(ctx.store, used)\n    if ctx.is_check:\n        return",
        "    if ctx.is_check:\n        return\n    FEE_GRANTS.put(ctx.store, used)\n    if False:\n        return",
        (f"{FEE_PAYS}::test_a_limit_holds_in_one_block_and_in_the_mempool",),
    ),
    Mutant(
        "expired-grant-pays",
        "a fee grant pays after its time",
        _CODE,
        "    if is_expired(grant, ctx.time_ns):\n",
        "    if is_expired(grant, 0):\n",
        (f"{FEE_GRANTS}::test_the_time_of_a_grant",),
    ),
    Mutant(
        "grant-ends-early",
        "a fee grant ends at its last moment, not after it",
        _CODE,
        "grant.expires_ns < time_ns",
        "grant.expires_ns <= time_ns",
        (f"{FEE_GRANTS}::test_a_grant_at_its_last_moment",),
    ),
    Mutant(
        "any-message",
        "a fee grant pays for messages that it does not name",
        _CODE,
        "            if message.URL not in grant.allowed:\n",
        "            if False:\n",
        (f"{FEE_GRANTS}::test_messages_that_are_allowed",),
    ),
    Mutant(
        "periods-add-up",
        "unused periods can be spent later",
        _CODE,
        "resets_ns=resets if resets >= time_ns else time_ns + period.length_ns)",
        "resets_ns=resets)",
        (f"{FEE_PAYS}::test_a_period_is_not_renewed_by_waiting_for_several",),
    ),
    Mutant(
        "period-above-the-rest",
        "a new period allows more than is left in all",
        _CODE,
        "min(period.limit, grant.spend_limit)",
        "period.limit",
        (f"{FEE_GRANTS}::test_a_period_never_shows_more_than_is_left",),
    ),
    Mutant(
        "removal-without-bound",
        "one block removes all fee grants that have expired",
        _CODE,
        "REMOVED_MAX = 32\n",
        "REMOVED_MAX = 10**6\n",
        (f"{FEE_GRANTS}::test_each_block_removes_some",),
    ),
    Mutant(
        "second-grant",
        "a second fee grant replaces one that runs",
        "chain/state_machine/feegrant/handlers.py",
        "    if old is not None and not is_expired(old, ctx.time_ns):\n",
        "    if False:\n",
        (f"{FEE_GRANTS}::test_a_second_grant_needs_the_end_of_the_first",),
    ),
    Mutant(
        "free-prune",
        "the removal of expired fee grants costs no gas",
        "chain/state_machine/feegrant/handlers.py",
        "apply_prune, weight=weigh_prune)",
        "apply_prune)",
        (f"{FEE_GRANTS}::test_anyone_can_remove_more",),
    ),
)

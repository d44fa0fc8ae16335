"""Mutants of chain_authz."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import FOR_OTHERS

_CODE = "chain/state_machine/authz/grants.py"

MUTANTS = (
    Mutant(
        "exec-for-anyone",
        "a grantee sends messages of accounts that allowed it nothing",
        _CODE,
        "    if granter == grantee:\n        return\n",
        "    return\n",
        (f"{FOR_OTHERS}::test_what_nobody_allowed",),
    ),
    Mutant(
        "limit-does-not-shrink",
        "an authorization to send coins keeps its limit",
        _CODE,
        "replace(grant, spend_limit=left) if left else None",
        "grant",
        (f"{FOR_OTHERS}::test_a_limit_shrinks_and_ends_with_its_last_coin",),
    ),
    Mutant(
        "any-recipient",
        "an authorization sends coins to accounts that are not in its list",
        _CODE,
        "    if grant.allow_list and message.to_address not in grant.allow_list:\n",
        "    if False:\n",
        (f"{FOR_OTHERS}::test_a_limit_shrinks_and_ends_with_its_last_coin",),
    ),
    Mutant(
        "expired-authorization",
        "an authorization can be used after its time",
        _CODE,
        "    if is_expired(grant, ctx.time_ns):\n",
        "    if is_expired(grant, 0):\n",
        (f"{FOR_OTHERS}::test_the_time_of_an_authorization",),
    ),
    Mutant(
        "old-end-stays",
        "a new authorization ends at the time of the one that it replaced",
        "chain/state_machine/authz/handlers.py",
        "    if old is not None:\n        remove_grant(ctx.store, old)\n",
        "",
        (f"{FOR_OTHERS}::test_a_new_authorization_replaces_the_old_one",),
    ),
    Mutant(
        "exec-inside-exec",
        "a MsgExec may have another one inside",
        "chain/state_machine/authz/handlers.py",
        "    if any(isinstance(inner, MsgExec) for inner in message.msgs):\n",
        "    if False:\n",
        (f"{FOR_OTHERS}::test_what_is_refused",),
    ),
    Mutant(
        "same-place-inside",
        "two orders inside a message get the same id",
        "chain/state_machine/authz/handlers.py",
        "            ctx.inner_number = number\n",
        "            ctx.inner_number = 1\n",
        (f"{FOR_OTHERS}::test_somebody_else_pays_for_an_order",),
    ),
    Mutant(
        "endless-removal",
        "one block removes all authorizations that have expired",
        _CODE,
        "REMOVED_MAX = 32\n",
        "REMOVED_MAX = 10**6\n",
        (f"{FOR_OTHERS}::test_a_flood_of_ends",),
    ),
)

"""Mutants of escrow."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import MARKET, RESUME, VOID_SHARES

_SETTLE = "tests/unit/escrow/test_settle.py"

MUTANTS = (
    Mutant(
        "part-refunded",
        "the end of an order refunds what still waits for a validator",
        "escrow/deposits.py",
        "        stays = min(unpaid, row.locked)\n",
        "        stays = 0\n",
        (f"{RESUME}::test_an_order_does_not_close_while_a_part_waits",),
    ),
    Mutant(
        "round-pay",
        "providers share the validator's part",
        "escrow/settle.py",
        "pool = bps_floor(rest, providers_bps)",
        "pool = rest",
        (MARKET,),
    ),
    Mutant(
        "void-half-kept",
        "the owner of a wrong share and of right ones gets back the whole bond",
        "escrow/settle.py",
        "    return bond - paid, paid\n",
        "    return 0, bond\n",
        (
            _SETTLE,
            VOID_SHARES,
        ),
    ),
    Mutant(
        "void-first-come",
        "who stands first takes what is there",
        "escrow/settle.py",
        "    return value * min(fund, right) // right if right else 0\n",
        "    return min(value, fund)\n",
        (_SETTLE,),
    ),
    Mutant(
        "void-highest-cover",
        "a high cover of another task counts for all",
        "escrow/settle.py",
        "    return left * min(limit, unpaid) *",
        "    return left * min(top, unpaid) *",
        (_SETTLE,),
    ),
)

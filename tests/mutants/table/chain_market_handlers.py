"""Mutants of chain_market_handlers."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import AUCTION, JOINT

MUTANTS = (
    Mutant(
        "capacity-back",
        "a change of a bid frees what is sold of it",
        "chain/state_machine/market/handlers/bids.py",
        "        capacity=message.capacity,\n        expires_at=expires_at,",
        "        capacity=message.capacity,\n        reserved=0,\n        expires_at=expires_at,",
        (f"{AUCTION}::test_a_change_of_a_bid_frees_nothing_that_is_sold",),
    ),
    Mutant(
        "payer-compensated",
        "a consumer gets back a fee that another account paid",
        "chain/state_machine/market/handlers/orders.py",
        " or ctx.sender.payer != message.consumer:",
        ":",
        (f"{JOINT}::test_a_consumer_gets_no_fee_back_that_another_account_paid",),
    ),
    Mutant(
        "auditors-for-nothing",
        "the list of auditors that an order keeps needs no gas",
        "chain/state_machine/market/handlers/orders.py",
        "    return AUDITOR_GAS * len(auditable.auditors)\n",
        "    return 0\n",
        ("tests/unit/chain/state_machine/market/handlers/test_submit_order.py",),
    ),
)

"""Mutants of chain_market_handlers."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import AUCTION, FOR_OTHERS, JOINT

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
        "fee-back-inside",
        "one fee is given back for each order inside a message",
        "chain/state_machine/market/handlers/orders.py",
        "ctx.sender is None or ctx.place or",
        "ctx.sender is None or ctx.message_index or",
        (f"{FOR_OTHERS}::test_one_fee_is_not_given_back_for_several_orders",),
    ),
    Mutant(
        "auditors-for-nothing",
        "the list of auditors that an order keeps needs no gas",
        "chain/state_machine/market/handlers/orders.py",
        "    return AUDITOR_GAS * len(auditable.auditors) * (1 + more) + REPLICA_GAS * more\n",
        "    return 0\n",
        ("tests/unit/chain/state_machine/market/handlers/test_submit_order.py",),
    ),
)

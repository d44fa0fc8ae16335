"""Mutants of chain_market."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import AUCTION, LEAVING, MATCHED, ROOM, SERVING, SLASHES, STANDS, VOID_SHARES

MUTANTS = (
    Mutant(
        "auction-block-hash",
        "ties of the auction are broken by a block hash",
        "chain/state_machine/market/auction.py",
        "ctx.block.previous_beacon",
        "ctx.block.previous_hash",
        ("tests/unit/chain/state_machine/market/test_auction.py",),
    ),
    Mutant(
        "hold-counted-twice",
        "time in which an order is held and waits for room as well moves its deadline twice",
        "chain/state_machine/market/holds.py",
        "deadline=order.deadline + held - overlap",
        "deadline=order.deadline + held",
        ("tests/unit/chain/state_machine/market/test_holds.py",),
    ),
    Mutant(
        "hold-for-ever",
        "a hold that its owner does not take off never ends",
        "chain/state_machine/market/holds.py",
        "    if due is not None and ctx.clock >= due.until:\n",
        "    if due is None:\n",
        ("tests/unit/chain/state_machine/market/test_holds.py",),
    ),
    Mutant(
        "closed-before-a-stand",
        "an order closes at once, so that no provider of a void round can stand",
        "chain/state_machine/market/orders.py",
        "    waits = tally.stands > 0 or ctx.clock < tally.stands_until\n",
        "    waits = False\n",
        (f"{STANDS}::test_an_order_closes_when_its_providers_had_the_time_to_stand",),
    ),
    Mutant(
        "same-block",
        "an order is matched in its own block",
        "chain/state_machine/market/auction.py",
        "number_of(key[0]) < ctx.height",
        "number_of(key[0]) <= ctx.height",
        (f"{AUCTION}::test_an_order_is_matched_after_its_own_block",),
    ),
    Mutant(
        "old-orders-first",
        "old orders without a bid take every try",
        "chain/state_machine/market/auction.py",
        "reserved = limit // 2 if limit > 1 else ctx.height % 2",
        "reserved = 0",
        (f"{AUCTION}::test_old_orders_that_no_bid_serves_do_not_hold_up_a_new_one",),
    ),
    Mutant(
        "one-try",
        "where a block has one try, no new order is tried while old ones are",
        "chain/state_machine/market/auction.py",
        "reserved = limit // 2 if limit > 1 else ctx.height % 2",
        "reserved = limit // 2",
        (f"{AUCTION}::test_where_a_block_has_one_try_new_and_old_orders_take_turns",),
    ),
    Mutant(
        "junk",
        "all open orders are tried after any change of the book",
        "chain/state_machine/market/auction.py",
        "number_of(key[0]) <= lowest, OPEN",
        "True, OPEN",
        (f"{AUCTION}::test_junk_below_every_price_is_not_tried_when_the_book_changes",),
    ),
    Mutant(
        "proven-unpaid",
        "a proven order is closed at its deadline",
        "chain/state_machine/market/orders.py",
        "if order.state in (OrderState.CLOSED, OrderState.PROVEN) or is_ending(ctx, order):\n"
        "        return\n    if is_paused",
        "if order.state is OrderState.PROVEN:\n"
        "        end_order(ctx, order, CloseReason.DEADLINE)\n"
        "        return\n"
        "    if order.state is OrderState.CLOSED or is_ending(ctx, order):\n"
        "        return\n    if is_paused",
        (
            "tests/unit/chain/state_machine/proof/test_settlement.py"
            "::test_a_proven_order_runs_out_its_windows_whatever_its_deadline",
        ),
    ),
    Mutant(
        "dropped-block",
        "a block that is dropped leaves its bids in the living book",
        "chain/state_machine/market/book.py",
        "self._unsure = dict.fromkeys(changed)",
        "self._unsure = {}",
        ("tests/property/test_living_book.py", "tests/unit/chain/app/test_living_book.py"),
    ),
    Mutant(
        "lost-step",
        "a living book that missed a commit goes on as if nothing had happened",
        "chain/state_machine/market/book.py",
        "if step.before == self._version:",
        "if step.before:",
        ("tests/property/test_living_book.py",),
    ),
    Mutant(
        "party-audits-the-rest",
        "an order is sold though all who could audit it served it before",
        "chain/state_machine/market/auction.py",
        "            and operator not in servers\n",
        "",
        (f"{SERVING}::test_who_accepted_an_earlier_leg_is_no_stranger_in_the_auction",),
    ),
    Mutant(
        "room-costs-time",
        "an order that waited for room fails at the deadline that it had before",
        "chain/state_machine/market/orders.py",
        "waited = ctx.clock - tally.waits_since if tally.waiting else 0",
        "waited = 0",
        (f"{ROOM}::test_what_an_order_waits_for_room_is_added_to_its_deadline",),
    ),
    Mutant(
        "price-takes-the-audits",
        "a price is matched that leaves nothing for the audits",
        "chain/state_machine/market/auction.py",
        "affordable_price(escrow, asked.work, order.price_limit, reserved)",
        "affordable_price(escrow, asked.work, order.price_limit)",
        (f"{MATCHED}::test_what_is_left_after_burning_bounds_the_price",),
    ),
    Mutant(
        "event-excluded",
        "no event tells that a validator is excluded from an order",
        "chain/state_machine/market/orders.py",
        "    ctx.emit(OrderExcluded(order.id, validator))\n",
        "",
        (f"{AUCTION}::test_a_validator_whose_kin_are_all_who_could_audit_gets_no_match",),
    ),
    Mutant(
        "sold-before-the-slash",
        "the stake that a vote may take backs other orders",
        "chain/state_machine/market/book.py",
        "max(0, validator.stake - load.value - load.slash),",
        "max(0, validator.stake - load.value),",
        (f"{SLASHES}::test_the_stake_that_a_vote_may_take_backs_no_other_order",),
    ),
    Mutant(
        "void-cover-at-the-end",
        "the end of an order returns the job bond before right shares are paid",
        "chain/state_machine/market/orders.py",
        "    kept = (*kept, BondKind.JOB) if tally.funds else kept\n",
        "",
        (VOID_SHARES,),
    ),
    Mutant(
        "votes-reserve-nothing",
        "stake that legs reserve may leave",
        "chain/state_machine/market/book.py",
        "    return load.value + load.slash\n",
        "    return load.slash\n",
        (f"{LEAVING}::test_sold_stake_does_not_leave_before_the_leg_is_over",),
    ),
    Mutant(
        "reasons-of-the-leader-only",
        "a replica that waits beside the book does not say why none of them is matched",
        "chain/state_machine/market/auction.py",
        "for name in replica_ids(order) if order.replicas and not order.legs else (order_id,):",
        "for name in (order_id,):",
        ("tests/unit/chain/state_machine/proof/test_replicas.py::test_all_replicas_know_why_none_of_them_is_matched",),
    ),
)

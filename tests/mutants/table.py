"""The mutants, by what they break; each change of the rules adds those that its tests are meant to notice."""

from dataclasses import dataclass

_VECTORS = "tests/vectors/test_vectors.py::test_the_code_makes_what_the_file_has"
MARKET = f"{_VECTORS}[market]"
TRANSACTIONS = f"{_VECTORS}[transactions]"
COMMITMENTS = f"{_VECTORS}[commitments]"
REJECTIONS = ("tests/unit/chain/state_machine/proof/test_rejections.py",)
LOT = f"{_VECTORS}[lot]"
LINK = f"{_VECTORS}[link]"
HANDOVER = f"{_VECTORS}[handover]"
VRF = f"{_VECTORS}[vrf]"
_VRF = "tests/unit/wire/test_vrf.py"
_LOTS = "tests/unit/chain/state_machine/proof/test_clock_and_lots.py"
_BEACON = "tests/unit/chain/state_machine/registry/test_beacon.py"
_REVEALS = "tests/unit/chain/app/test_reveals.py"
STATE = f"{_VECTORS}[state]"
JOB = f"{_VECTORS}[job]"
_BLOBS = "tests/unit/link/test_blobs.py"
_SERVICE = "tests/unit/validator/test_service.py"
_RECEIVING = "tests/unit/link/test_receiving.py"
_GAS = "tests/unit/chain/state_machine/test_gas.py"
_BLOCK_GAS = "tests/unit/chain/app/test_block_gas.py"
_CANONICAL = "tests/unit/wire/test_canonical.py"
_MATCH = "tests/unit/matching_engine/test_match.py"
_MATCHED = "tests/unit/chain/state_machine/market/handlers/test_open_and_matched.py"
_AUCTION = "tests/unit/chain/state_machine/market/test_auction.py"
_COST = "tests/unit/pol/job/test_cost.py"
ADDRESS_FIELDS = "tests/unit/wire/test_address_fields.py::test_what_is_no_address_is_refused"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place: ``old`` occurs once in ``file`` and becomes ``new``; one of ``tests`` must then fail."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = (
    # --- the beacon ---
    Mutant(
        "lot-block-hash",
        "lots are drawn from a block hash, which its proposer chooses",
        "chain/state_machine/due.py",
        "apply_lot(ctx, lot, ctx.revealed)",
        "apply_lot(ctx, lot, ctx.block.previous_hash)",
        (_LOTS, MARKET),
    ),
    Mutant(
        "lot-third",
        "strangers with a third of the stake are enough, and not more than a third",
        "chain/state_machine/proof/lots.py",
        "3 * revealed > stake",
        "3 * revealed >= stake",
        (_LOTS,),
    ),
    Mutant(
        "lot-one-proposer",
        "one stranger with enough stake is enough",
        "chain/state_machine/proof/lots.py",
        "count >= PROPOSERS and 3",
        "3",
        (_LOTS,),
    ),
    Mutant(
        "lot-party",
        "a party counts among the proposers",
        "chain/state_machine/proof/lots.py",
        "if revealer.operator not in group.parties]",
        "if revealer.operator]",
        (_LOTS,),
    ),
    Mutant(
        "lot-party-completes",
        "a lot may be complete in a party's block, which then is its seed",
        "chain/state_machine/proof/lots.py",
        "if able[0].height != ctx.height:",
        "if able[0].height > ctx.height:",
        (_LOTS,),
    ),
    Mutant(
        "auction-block-hash",
        "ties of the auction are broken by a block hash",
        "chain/state_machine/market/auction.py",
        "ctx.block.previous_beacon",
        "ctx.block.previous_hash",
        ("tests/unit/chain/state_machine/market/test_auction.py",),
    ),
    Mutant(
        "reveal-any-vote",
        "a node votes for a proposal whatever it reveals",
        "chain/app/application.py",
        "if reveal is None or not verify_reveal(duty.pub_key, duty.message, reveal.proof):",
        "if reveal is None:",
        (_REVEALS,),
    ),
    Mutant(
        "reveal-any-block",
        "a decided block makes a beacon of whatever it reveals",
        "chain/state_machine/registry/beacon.py",
        "if duty is None or not verify(duty.pub_key, duty.message, proof):",
        "if duty is None:",
        (_BEACON,),
    ),
    Mutant(
        "reveal-known-before",
        "a reveal does not depend on the beacon before, so that its maker knows all of its own",
        "domain/beacon.py",
        "u64(height), previous)",
        "u64(height))",
        (MARKET, _REVEALS),
    ),
    Mutant(
        "beacon-key-comes-back",
        "who gives its key up has the one before again, and so a choice",
        "chain/state_machine/registry/beacon.py",
        "not (counted and",
        "not (False and",
        (_BEACON,),
    ),
    Mutant(
        "beacon-key-at-once",
        "a new beacon key counts at once, and its owner tries keys until one suits it",
        "chain/state_machine/registry/beacon.py",
        "BeaconKey(key, ctx.height + ctx.block.params.beacon_delay)",
        "BeaconKey(key, ctx.height)",
        (_BEACON,),
    ),
    Mutant(
        "vrf-any-value",
        "the proof holds for any value, because nothing is compared on its side",
        "wire/vrf.py",
        "second = _difference(hashed.multiply(s), PublicKey(gamma).multiply(c))",
        "second = hashed.multiply(s)",
        (_VRF,),
    ),
    Mutant(
        "vrf-random-nonce",
        "one nonce for all messages, which gives the key away",
        "wire/vrf.py",
        'hash_fields("assay/vrf/nonce", secret, message)',
        'hash_fields("assay/vrf/nonce", secret)',
        (VRF,),
    ),
    # --- the state, and what it costs to change it ---
    Mutant(
        "share-key",
        "shares lie under another key of the state",
        "chain/state_machine/proof/tables.py",
        'SHARES = Table(0x32, "share"',
        'SHARES = Table(0x4B, "share"',
        (MARKET,),
    ),
    Mutant(
        "tree-leaf",
        "the leaf of the state's tree hashes the key itself",
        "chain/app/smt.py",
        "return sha256(LEAF_PREFIX + sha256(key).digest() + value_hash).digest()",
        "return sha256(LEAF_PREFIX + key + value_hash).digest()",
        (MARKET,),
    ),
    Mutant(
        "submit-gas",
        "an order costs the gas of any message",
        "domain/messages.py",
        "GAS_EXTRA: ClassVar[int] = 4",
        "GAS_EXTRA: ClassVar[int] = 0",
        (TRANSACTIONS, MARKET),
    ),
    Mutant(
        "share-gas",
        "the second signature of a share costs nothing",
        "domain/messages.py",
        '{"shares": 4, "rejections": 6}',
        '{"shares": 1, "rejections": 6}',
        (TRANSACTIONS, MARKET),
    ),
    # --- what a block may cost ---
    Mutant(
        "proposal-gas",
        "a proposal may declare any sum of gas",
        "chain/app/application.py",
        """            if gas_left < 0:
                log.warning""",
        """            if gas_left < -(10**30):
                log.warning""",
        (f"{_BLOCK_GAS}::test_a_proposal_declares_no_more_gas_than_a_block_has",),
    ),
    Mutant(
        "declared-gas",
        "a proposal may hold what declares less than it needs",
        "chain/state_machine/transition.py",
        "    check_gas(tx)\n    check_stateless(tx)\n",
        "    check_stateless(tx)\n",
        (f"{_BLOCK_GAS}::test_what_declares_less_than_it_needs_whatever_happens_is_not_voted_for",),
    ),
    Mutant(
        "alone-and-wrong",
        "what contradicts itself pays its fee in a block",
        "chain/state_machine/transition.py",
        """        check_stateless(tx)
        sender = apply_ante(ctx, tx, min_gas_price_millionths=0)
""",
        """        sender = apply_ante(ctx, tx, min_gas_price_millionths=0)
        check_stateless(tx)
""",
        (f"{_BLOCK_GAS}::test_what_shows_alone_to_be_wrong_is_not_voted_for_and_costs_nothing",),
    ),
    Mutant(
        "found-gas",
        "what a message finds in the state weighs nothing",
        "chain/state_machine/gas.py",
        "    ctx.gas_used += gas\n    if",
        "    if",
        (f"{_GAS}::test_what_needs_more_than_it_declared_fails_and_pays",),
    ),
    Mutant(
        "simulation-gas",
        "a simulation may be heavier than any transaction",
        "chain/state_machine/mempool.py",
        "        if ctx.gas_used > GAS_MAX:\n",
        "        if ctx.gas_used > GAS_MAX * GAS_MAX:\n",
        (f"{_GAS}::test_a_simulation_runs_nothing_that_no_transaction_may",),
    ),
    Mutant(
        "lane-share",
        "a lane does in a block whatever is due",
        "chain/state_machine/due.py",
        "if used and used + weight > ctx.block.params.due_gas * percent // 100:",
        "if used and used + weight > ctx.block.params.due_gas * 10**9:",
        (
            f"{_GAS}::test_a_heavy_entry_is_first_in_the_next_block_and_none_overtakes_it",
            f"{_GAS}::test_a_void_round_takes_those_behind_it_along_one_step_at_a_time",
        ),
    ),
    Mutant(
        "heavy-entry",
        "an entry that is heavier than its lane's share waits for ever",
        "chain/state_machine/due.py",
        "if used and used + weight > ctx.block.params.due_gas * percent // 100:",
        "if used + weight > ctx.block.params.due_gas * percent // 100:",
        (f"{_GAS}::test_what_is_heavier_than_its_lanes_share_runs_alone",),
    ),
    Mutant(
        "one-budget",
        "the lanes share one budget",
        "chain/state_machine/due.py",
        "used = ctx.due_gas.get(lane, 0)",
        "used = sum(ctx.due_gas.values())",
        (f"{_GAS}::test_a_flood_in_one_lane_holds_up_no_other",),
    ),
    Mutant(
        "share-weight",
        "a round of any number of shares weighs nothing when it is dropped",
        "chain/state_machine/proof/shares.py",
        "return REJECT_GAS * count_live_shares(ctx, key)",
        "return 0 * count_live_shares(ctx, key)",
        (f"{_GAS}::test_a_heavy_entry_is_first_in_the_next_block_and_none_overtakes_it",),
    ),
    Mutant(
        "lost-power",
        "changes of power that nobody could be told are forgotten",
        "chain/state_machine/registry/members.py",
        "if not changed or not any(map(is_active, VALIDATORS.iterate(ctx.store))):\n        return ()",
        "if not any(map(is_active, VALIDATORS.iterate(ctx.store))):\n"
        "        [STAKES_BEFORE.delete(ctx.store, key) for (key,), _ in changed]\n        return ()",
        (
            "tests/unit/chain/state_machine/registry/test_genesis_and_powers.py"
            "::test_what_could_not_be_told_is_told_when_somebody_has_power_again",
        ),
    ),
    Mutant(
        "not-utf8",
        "text that is no UTF-8 stops a node whose protobuf is not upb",
        "wire/canonical.py",
        "UNREADABLE = (DecodeError, ValueError)",
        "UNREADABLE = (DecodeError,)",
        (f"{_CANONICAL}::test_text_that_is_no_utf8_is_refused_by_every_implementation",),
    ),
    Mutant(
        "list-cap",
        "the items of a list are read before its cap is looked at",
        "wire/convert.py",
        """        fits(values)
        if read is None:
            return tuple(values)
""",
        """        if read is None:
            fits(values)
            return tuple(values)
""",
        (f"{_CANONICAL}::test_a_list_over_its_cap_is_refused_before_its_items_are_read",),
    ),
    # --- the market ---
    Mutant(
        "equal-prices",
        "among equal prices the validator is not drawn for each order anew",
        "matching_engine/match.py",
        'hash_fields("assay/match/validator", seed, order.order_id, bid.validator)',
        'hash_fields("assay/match/validator", order.order_id, bid.validator)',
        (f"{_MATCH}::test_equal_prices_go_to_the_lowest_hash_of_seed_order_and_validator",),
    ),
    Mutant(
        "tickets",
        "each of equal bids is a ticket",
        "matching_engine/match.py",
        "seed, order.order_id, bid.validator)",
        "seed, order.order_id, bid.id)",
        (f"{_MATCH}::test_many_equal_bids_are_one_ticket",),
    ),
    Mutant(
        "last-look",
        "a bid placed after the order goes below those that stood",
        "matching_engine/match.py",
        "return bid.placed_height >= order.opened_height",
        "return False",
        (f"{_AUCTION}::test_nobody_who_saw_an_order_goes_below_a_rival",),
    ),
    Mutant(
        "last-look-alone",
        "a validator alone asks for the whole limit when it sees an order",
        "matching_engine/conditions.py",
        "needs=lambda order, _: 1 - order.opened_height,",
        "needs=lambda order, _: -order.opened_height - 99,",
        (f"{_AUCTION}::test_who_raises_its_price_on_seeing_an_order_loses_it",),
    ),
    Mutant(
        "same-block",
        "an order is matched in its own block",
        "chain/state_machine/market/auction.py",
        "number_of(key[0]) < ctx.height",
        "number_of(key[0]) <= ctx.height",
        (f"{_AUCTION}::test_an_order_is_matched_after_its_own_block",),
    ),
    Mutant(
        "cheap-bond",
        "an absurdly low bid risks next to nothing",
        "matching_engine/records.py",
        "least = max(price, ceil_div(self.price_limit, 2))",
        "least = price",
        (f"{_AUCTION}::test_an_absurdly_low_bid_risks_as_much_as_an_honest_one",),
    ),
    Mutant(
        "capacity-back",
        "a change of a bid frees what is sold of it",
        "chain/state_machine/market/handlers/bids.py",
        "        capacity=message.capacity,\n        expires_at=expires_at,",
        "        capacity=message.capacity,\n        reserved=0,\n        expires_at=expires_at,",
        (f"{_AUCTION}::test_a_change_of_a_bid_frees_nothing_that_is_sold",),
    ),
    Mutant(
        "deadline-without-acceptance",
        "the deadline leaves no time to accept",
        "matching_engine/conditions.py",
        "order.seconds_left - order.accept_seconds - order.verify_seconds",
        "order.seconds_left - order.verify_seconds",
        ("tests/unit/matching_engine/test_conditions.py",),
    ),
    Mutant(
        "deadline-without-audit",
        "the deadline leaves no time for the last round's audit",
        "domain/params.py",
        "return self.round_window + DRAWS * (self.lot_wait + ceil_div(self.round_window, 2))",
        "return self.round_window",
        (f"{_AUCTION}::test_a_deadline_leaves_time_to_accept_to_train_and_to_verify",),
    ),
    Mutant(
        "junk",
        "all open orders are tried after any change of the book",
        "chain/state_machine/market/auction.py",
        "number_of(key[0]) <= lowest, OPEN",
        "True, OPEN",
        (f"{_AUCTION}::test_junk_below_every_price_is_not_tried_when_the_book_changes",),
    ),
    Mutant(
        "emptied-book",
        "whoever declines loses its bid",
        "chain/state_machine/market/attempts.py",
        "    if reason is AttemptEnd.DECLINED_NO_CAPACITY:\n",
        "    if reason:\n",
        (f"{_MATCHED}::test_one_order_that_is_never_delivered_does_not_empty_the_book",),
    ),
    Mutant(
        "blame-for-ever",
        "an order that is never delivered goes round all validators",
        "chain/state_machine/market/attempts.py",
        "        order = ORDERS.update(ctx.store, order.id, failures=order.failures + 1)\n"
        "        fee = order.params.payload_fee\n",
        "        fee = order.params.payload_fee\n",
        (f"{_MATCHED}::test_an_order_that_is_blamed_often_closes",),
    ),
    Mutant(
        "bond-robbery",
        "a consumer earns the job bond of who cannot finish its job",
        "chain/state_machine/market/attempts.py",
        "source, paid = order.id.hex(), min(cut, lost)",
        "source, paid = order.id.hex(), cut",
        (f"{_MATCHED}::test_a_missed_accept_burns_the_job_bond_but_for_what_the_order_cost",),
    ),
    Mutant(
        "deadline-in-a-match",
        "the order's deadline ends a match without fault",
        "chain/state_machine/market/attempts.py",
        "        miss_accept(ctx, order, assignment)\n    elif",
        "        end_order(ctx, order, CloseReason.DEADLINE)\n    elif",
        (
            f"{_MATCHED}::test_the_orders_deadline_before_the_accept_deadline_is_a_missed_acceptance",
        ),
    ),
    Mutant(
        "proven-unpaid",
        "a proven order is closed at its deadline",
        "chain/state_machine/market/attempts.py",
        "if order.state in (OrderState.CLOSED, OrderState.PROVEN) or is_ending(ctx, order):\n"
        "        return\n    if order.state is OrderState.OPEN:",
        "if order.state is OrderState.CLOSED or is_ending(ctx, order):\n"
        "        return\n    if order.state in (OrderState.OPEN, OrderState.PROVEN):",
        (
            "tests/unit/chain/state_machine/proof/test_settlement.py"
            "::test_a_proven_order_runs_out_its_windows_whatever_its_deadline",
        ),
    ),
    Mutant(
        "void-locks",
        "a proven order with a void round keeps its bonds",
        "chain/state_machine/proof/settlement.py",
        "elif order.state is OrderState.PROVEN and is_over:",
        "elif order.state is OrderState.PROVEN and is_over and ctx.clock >= order.deadline:",
        (
            "tests/unit/chain/state_machine/proof/handlers/test_answer_audit.py"
            "::test_a_void_round_ends_a_proven_order_at_once_with_the_deposit_back",
        ),
    ),
    Mutant(
        "key-twice",
        "the proof of an order's key serves another order",
        "pol/rules/commitment.py",
        'return encode_fields("assay/order-key", order_id, order_key)',
        'return encode_fields("assay/order-key", order_key)',
        (
            "tests/unit/chain/state_machine/market/handlers/test_submit_order.py"
            "::test_a_key_that_was_proven_for_one_order_serves_no_second_one",
        ),
    ),
    Mutant(
        "endless-acceptance",
        "a payload may take years to arrive",
        "matching_engine/conditions.py",
        "seconds = order.accept_max - order.accept_seconds",
        "seconds = UNBOUNDED",
        ("tests/unit/matching_engine/test_conditions.py",),
    ),
    Mutant(
        "excluded",
        "an order goes back to the validator that declined it",
        "matching_engine/conditions.py",
        "validator not in order.excluded,",
        "validator not in order.excluded[1:],",
        (MARKET,),
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
        "turns",
        "the last turn of a round counts as a part of one",
        "domain/amount.py",
        "return ceil_div(slots, at_once) * share_work + outer_work",
        "return slots * share_work // at_once + outer_work",
        ("tests/unit/matching_engine/test_conditions.py",),
    ),
    Mutant(
        "whole-seconds",
        "all rounds together are rounded up instead of each",
        "matching_engine/conditions.py",
        "return ceil_div(order.trial_work, speed) + order.rounds * ceil_div(work, speed)",
        "return ceil_div(order.trial_work + order.rounds * work, speed)",
        ("tests/unit/matching_engine/test_conditions.py",),
    ),
    Mutant(
        "foreign-local-state",
        "a slot may begin again with the local state of a new order",
        "chain/state_machine/proof/handlers/commit_traces.py",
        "LOCAL_ROOTS.get(ctx.store, order.id, attempt, slot) or order.terms.local_root",
        "order.terms.local_root",
        ("tests/unit/chain/state_machine/proof/handlers/test_commit_traces.py",),
    ),
    Mutant(
        "roots-unchecked",
        "a round is closed with roots that nobody committed to",
        "chain/state_machine/proof/handlers/close_round.py",
        "    if made != claim.commitment:\n",
        "    if made != made:\n",
        ("tests/unit/chain/state_machine/proof/handlers/test_close_round_and_prove.py",),
    ),
    Mutant(
        "free-rejection",
        "a rejected share gets its bond back at once, so that rejecting proves nothing and costs nobody",
        "chain/state_machine/proof/rejections.py",
        "        if share.state is ShareState.REJECTED:\n",
        "        if share.state is ShareState.WRONG:\n",
        REJECTIONS,
    ),
    Mutant(
        "work-theft",
        "a validator takes the work that it rejects for nothing",
        "chain/state_machine/proof/rejections.py",
        "    if lost and not RIGHTED.has(ctx.store, *slot):\n",
        "    if lost and RIGHTED.has(ctx.store, *slot):\n",
        REJECTIONS,
    ),
    Mutant(
        "silence-pays",
        "a provider that is served twice for one slot is paid for its silence",
        "chain/state_machine/proof/rejections.py",
        "lost = accepted.claim.provider != claim.provider",
        "lost = True",
        REJECTIONS,
    ),
    Mutant(
        "fresh-lot",
        "a new issue of a slot gets a lot that forgets those before it",
        "chain/state_machine/proof/shares.py",
        "tuple(sorted({*own, *before}))",
        "tuple(sorted(own))",
        REJECTIONS,
    ),
    Mutant(
        "missing-slot",
        "a round closes without its last slots",
        "chain/state_machine/proof/handlers/close_round.py",
        "if missing < slots:",
        "if missing < len(shares):",
        ("tests/unit/chain/state_machine/proof/handlers/test_close_round_and_prove.py",),
    ),
    Mutant(
        "outer-pay",
        "providers are paid for the aggregation",
        "chain/state_machine/proof/handlers/close_round.py",
        "work=round_work(order.terms),",
        "work=sum(share.work for share in found.shares),",
        ("tests/unit/chain/state_machine/proof/handlers/test_close_round_and_prove.py",),
    ),
    Mutant(
        "slow-aggregation",
        "an aggregation may be more than an auditor can replay",
        "pol/rules/orders.py",
        "if terms.outer_work > most:",
        "if not most:",
        ("tests/unit/chain/state_machine/market/handlers/test_submit_order.py",),
    ),
    Mutant(
        "data-in-time",
        "the time to accept forgets the data",
        "domain/records.py",
        "return self.payload_bytes + self.data_bytes",
        "return self.payload_bytes",
        ("tests/unit/chain/state_machine/market/handlers/test_open_and_matched.py",),
    ),
    # --- who serves which slot ---
    Mutant(
        "slowest-first",
        "slots go around all providers, however slow they are",
        "validator/decide/plan.py",
        "return Fraction(queues[address], speeds[address])",
        "return Fraction(queues[address], 1)",
        ("tests/unit/validator/test_plan.py",),
    ),
    Mutant(
        "wandering-slots",
        "a slot does not stay with who holds its local state",
        "validator/decide/plan.py",
        'known = last.get(slot, "")',
        'known = ""',
        ("tests/unit/validator/test_plan.py",),
    ),
    Mutant(
        "same-again",
        "a slot that failed goes to the same provider again",
        "validator/decide/assign.py",
        "plan_slots([slot], others or least, waiting, {})",
        "plan_slots([slot], least, waiting, {slot: failed.provider})",
        ("tests/unit/validator/test_decide.py",),
    ),
    Mutant(
        "one-deadline",
        "all shares that a provider is given have the same time",
        "validator/decide/assign.py",
        "    place = before + 1\n",
        "    place = 1\n",
        ("tests/unit/validator/test_decide.py",),
    ),
    Mutant(
        "new-local-state",
        "a slot begins each round with the local state of a new order",
        "validator/decide/assign.py",
        "local_in = next((s.state for s in local.locals if s.slot == slot), initial)",
        "local_in = initial",
        ("tests/unit/validator/test_decide.py",),
    ),
    Mutant(
        "first-slot-only",
        "a provider trains the first slot, whichever it was given",
        "compute_provider/work/worker.py",
        "return RoundSlot(order.round, order.slot)",
        "return RoundSlot(order.round, 0)",
        ("tests/unit/compute_provider/work/test_worker.py",),
    ),
    Mutant(
        "no-such-slot",
        "a provider works for a slot that the job has not",
        "compute_provider/decide/claims.py",
        "(task.key.slot < terms.slots,",
        "(task.key.slot <= terms.slots,",
        ("tests/unit/compute_provider/decide/test_claims.py",),
    ),
    Mutant(
        "auditors-first-slot",
        "an auditor replays another slot than the one that was drawn",
        "validator/work/audit.py",
        "RoundSlot(share.claim.round, share.claim.slot)",
        "RoundSlot(share.claim.round, 0)",
        ("tests/unit/validator/test_audit.py",),
    ),
    Mutant(
        "cut-rest",
        "what does not divide among auditors is not burnt",
        "escrow/settle.py",
        "for receiver in receivers), pot - each * len(receivers)",
        "for receiver in receivers), 0",
        ("tests/unit/escrow/test_settle.py",),
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
        "bond-wait",
        "a bond that is asked back arrives a second early",
        "chain/state_machine/ledger/balances.py",
        "if w.release_at <= ctx.clock)",
        "if w.release_at <= ctx.clock + 1)",
        (MARKET,),
    ),
    # --- what is drawn, hashed and signed ---
    Mutant(
        "lot-swap",
        "a draw forgets what it moved, and may draw a number twice",
        "pol/rules/lots.py",
        "drawn.append(moved.get(picked, picked))",
        "drawn.append(picked)",
        (LOT,),
    ),
    Mutant(
        "lot-seed",
        "the lots of different purposes are the same",
        "pol/rules/lots.py",
        '"assay/lot", purpose, lot_id, beacon)',
        '"assay/lot", lot_id, beacon)',
        (LOT, MARKET),
    ),
    Mutant(
        "share-version",
        "a commitment does not bind the executor's version",
        "pol/rules/commitment.py",
        "        u32(executor_version),\n",
        "",
        (COMMITMENTS,),
    ),
    Mutant(
        "commitment-provider",
        "a commitment could be copied under another name",
        "pol/rules/commitment.py",
        "        *_share_fields(share, provider),\n",
        '        *_share_fields(share, ""),\n',
        (COMMITMENTS,),
    ),
    Mutant(
        "metrics-unbound",
        "losses may be forged, because no root covers them",
        "pol/rules/commitment.py",
        'hash_fields("assay/boundary", global_root, local_root, _bits(metrics))',
        'hash_fields("assay/boundary", global_root, local_root, b"")',
        (COMMITMENTS,),
    ),
    Mutant(
        "leaf-of-the-opening",
        "a leaf may say that a share starts from elsewhere",
        "pol/rules/commitment.py",
        "        1 <= leaf.index <= segments\n",
        "        0 <= leaf.index <= segments\n",
        (COMMITMENTS,),
    ),
    Mutant(
        "another-opening",
        "an auditor takes whatever state it is shown for where a share starts",
        "validator/work/audit.py",
        "        start = boundary_root(action.global_in, share.local_in)\n",
        "        start = opening.states[0].global_state.sha256\n",
        ("tests/unit/validator/test_audit.py",),
    ),
    Mutant(
        "tree-split",
        "leaves and inner nodes of a Merkle tree hash alike",
        "domain/hashing.py",
        r'sha256(b"\x01" + left + right)',
        r'sha256(b"\x00" + left + right)',
        (COMMITMENTS,),
    ),
    # --- the wire ---
    Mutant(
        "to-address",
        "coins can be sent to any text",
        "domain/messages.py",
        "    to_address: Address\n",
        "    to_address: Annotated[str, Visible(), Size(0, TEXT_MAX)]\n",
        (ADDRESS_FIELDS,),
    ),
    Mutant(
        "auditor",
        "an auditor can be any text",
        "domain/messages.py",
        "    auditor: Address\n",
        "    auditor: Annotated[str, Visible(), Size(0, TEXT_MAX)]\n",
        (ADDRESS_FIELDS,),
    ),
    Mutant(
        "signer",
        "a provider certifies itself",
        "domain/messages.py",
        'SIGNER: ClassVar[str] = "validator"\n    validator: Address\n    provider: Address\n',
        'SIGNER: ClassVar[str] = "provider"\n    provider: Address\n    validator: Address\n',
        (TRANSACTIONS,),
    ),
    Mutant(
        "bounds-of-python",
        "the state machine takes the bounds of messages that Python made for granted",
        "chain/state_machine/handler.py",
        "        if not is_bounded:\n",
        "        if is_bounded:\n",
        (
            "tests/unit/chain/state_machine/registry/test_handlers.py"
            "::test_measurements_are_bounded",
        ),
    ),
    Mutant(
        "sign-chain",
        "a transaction is signed for all chains",
        "domain/tx.py",
        r'        + _field(b"\x1a", chain_id.encode())',
        "",
        (TRANSACTIONS,),
    ),
    Mutant(
        "timeout-height",
        "a transaction is sent without its last height",
        "wire/tx.py",
        "memo=memo, timeout_height=timeout_height\n",
        "memo=memo\n",
        (TRANSACTIONS,),
    ),
    # --- states and jobs ---
    Mutant(
        "chunk-size",
        "the chunks of a state have another size",
        "pol/state/layout.py",
        "CHUNK_SIZE = 65_536",
        "CHUNK_SIZE = 32_768",
        (STATE,),
    ),
    Mutant(
        "job-flops",
        "a job's document has its work as numbers, not as text",
        "pol/job/document.py",
        "name: str(getattr(document, name))",
        "name: getattr(document, name)",
        (JOB,),
    ),
    # --- between owners ---
    Mutant(
        "envelope-body",
        "the body of a request on the link is not signed",
        "link/envelope.py",
        "sha256(body).digest(),",
        'sha256(b"").digest(),',
        (LINK,),
    ),
    Mutant(
        "chunk-nonce",
        "results are encrypted with another nonce",
        "link/handover.py",
        "_NONCE = bytes(12)",
        "_NONCE = bytes(11) + bytes([1])",
        (HANDOVER,),
    ),
    Mutant(
        "order-secret",
        "all orders of a job have the same secret",
        "link/handover.py",
        '"assay/order-key", chain_id, job_id, u64(sequence))',
        '"assay/order-key", chain_id, job_id)',
        (HANDOVER,),
    ),
    Mutant(
        "newest-order",
        "a consumer cannot open the result of the order that it made last",
        "consumer/submit.py",
        "in range(newest, max",
        "in range(newest - 2, max",
        ("tests/unit/consumer/test_submit.py::test_the_secret_is_found_again",),
    ),
    Mutant(
        "newest-caller",
        "the rate limits forget who called last",
        "link/rates.py",
        "popitem(last=False)",
        "popitem(last=True)",
        ("tests/unit/link/test_rates.py::test_only_who_was_quiet_longest_is_forgotten",),
    ),
    Mutant(
        "half-sent",
        "calls without a message keep their places whoever comes",
        "link/places.py",
        "if not place.worked_on]",
        "if place.arrived and not place.worked_on]",
        (f"{_RECEIVING}::test_half_sent_calls_from_everywhere_stop_nobody",),
    ),
    Mutant(
        "strangers-apart",
        "strangers and those who are known share the places",
        "link/receiving.py",
        "self.strangers if caller is None else self.known",
        "self.known",
        (f"{_RECEIVING}::test_what_strangers_wait_for_holds_up_nobody_who_is_known",),
    ),
    Mutant(
        "idle-strangers",
        "connections of strangers stay whoever comes",
        "link/limiter.py",
        "one.shutdown(socket.SHUT_RDWR)",
        "pass",
        ("tests/unit/link/test_limiter.py::test_idle_connections_of_strangers_make_room",),
    ),
    Mutant(
        "known-connections",
        "connections of those who are known are as many as strangers'",
        "link/limiter.py",
        "if caller is None:",
        "if True:",
        ("tests/unit/link/test_limiter.py::test_idle_connections_of_strangers_make_room",),
    ),
    Mutant(
        "request-size",
        "a request may have the size of the largest, whatever its call is",
        "link/server.py",
        "if len(raw) > call.size + _ENVELOPE_BYTES:",
        "if len(raw) > MESSAGE_BYTES_MAX:",
        ("tests/unit/link/test_server.py::test_more_than_a_call_has_is_refused_unread",),
    ),
    Mutant(
        "announced-bytes",
        "the first byte of a blob takes the room of the whole",
        "link/blobs.py",
        "self._arrived[name] = (owner, held + more)",
        "self._arrived[name] = (owner, blob.size)",
        (f"{_BLOBS}::test_three_bytes_take_three_bytes_of_room",),
    ),
    Mutant(
        "abandoned-upload",
        "an upload that stopped half-way keeps its room while its order lives",
        "link/blobs.py",
        "not (complete and self.is_held(digest))",
        "not self.is_held(digest)",
        (f"{_BLOBS}::test_collect_deletes_old_blobs_that_nobody_holds_or_finished",),
    ),
    Mutant(
        "whose-blob",
        "whoever asks is told that somebody else has sent a blob",
        "link/blobs.py",
        "return not owner or bool(",
        "return True or bool(",
        (f"{_BLOBS}::test_nobody_learns_what_others_sent",),
    ),
    Mutant(
        "asking-without-reason",
        "anybody may ask how much of a blob is here",
        "validator/serve/service.py",
        "if blob.size > allowed.largest:",
        "if False:",
        (f"{_SERVICE}::test_only_who_sends_a_blob_is_told_how_much_is_here",),
    ),
    # --- declared work and memory ---
    Mutant(
        "free-nodes",
        "a node on nothing is no work",
        "pol/ops/primitive.py",
        "FLOPS_PER_CALL = 10_000",
        "FLOPS_PER_CALL = 0",
        (f"{_COST}::test_small_nodes_are_work",),
    ),
    Mutant(
        "dead-nodes",
        "a job may hold nodes whose result nobody needs",
        "pol/job/program.py",
        "if first_node + offset not in needed:",
        "if first_node + offset < 0:",
        (f"{_COST}::test_nodes_whose_result_nobody_needs_are_refused",),
    ),
    Mutant(
        "many-epochs",
        "a batch may go through the data a thousand times",
        "pol/limits.py",
        "epochs_per_batch: int = 2",
        "epochs_per_batch: int = 1024",
        (f"{_COST}::test_a_batch_of_many_epochs_is_refused",),
    ),
    Mutant(
        "free-order",
        "a segment does not pay for the order that its replay sorts",
        "pol/job/cost.py",
        "ORDER_WORK * max(job.batch, ceil_div(job.rows * epochs, job.segment_steps))",
        "ORDER_WORK * job.batch",
        (f"{_COST}::test_the_order_of_an_epoch_is_work",),
    ),
    Mutant(
        "free-tensors",
        "tensors that a step writes are no work",
        "pol/job/cost.py",
        "TENSOR_CALLS * len(outputs)",
        "0 * len(outputs)",
        (f"{_COST}::test_many_tensors_are_refused_and_fewer_are_work",),
    ),
    Mutant(
        "free-outer",
        "the program at the end of a round is no work",
        "pol/job/cost.py",
        "        + job.outer.work.flops\n",
        "",
        (f"{_COST}::test_the_end_of_a_round_is_work",),
    ),
    Mutant(
        "hidden-copies",
        "a permutation leaves a view, which every reshape then copies",
        "pol/ops/shape.py",
        'np.asarray(x.transpose(dims), order="C")',
        "x.transpose(dims)",
        (f"{_COST}::test_a_reshape_of_what_was_permuted_is_no_copy",),
    ),
    Mutant(
        "free-product",
        "what a product needs for its result is not counted as memory",
        "pol/ops/product.py",
        "scratch_result=8",
        "scratch_result=0",
        (
            "tests/unit/pol/job/test_program.py::test_peak_counts_what_a_product_needs_beside_its_values",
        ),
    ),
    Mutant(
        "updates-kept",
        "all updates of a round are in memory at once",
        "pol/work/train.py",
        "    for update in updates:\n",
        "    for update in list(updates):\n",
        (
            "tests/unit/pol/replay/test_aggregate.py::test_updates_are_taken_one_by_one_and_none_is_kept",
        ),
    ),
)

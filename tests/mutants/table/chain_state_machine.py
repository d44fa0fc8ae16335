"""Mutants of chain_state_machine."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import BLOCK_GAS, FEE_PAYS, FULL, GAS, JOINT, SHARED, SIGNED

_DELEGATING = "tests/unit/chain/state_machine/staking/test_delegations.py"

MUTANTS = (
    Mutant(
        "numbers-of-refused",
        "a refused transaction uses up numbers of events",
        "chain/state_machine/transition.py",
        "        ctx.next_event = first_event\n        return refused(refusal, tx.gas_limit",
        "        return refused(refusal, tx.gas_limit",
        (
            "tests/property/test_operations.py"
            "::test_whatever_anybody_sends_all_invariants_hold_and_every_process_agrees",
        ),
    ),
    Mutant(
        "declared-gas",
        "a proposal may hold what declares less than it needs",
        "chain/state_machine/transition.py",
        "    check_gas(tx, params)\n    check_stateless(rules, tx)\n",
        "    check_stateless(rules, tx)\n",
        (f"{BLOCK_GAS}::test_what_declares_less_than_it_needs_whatever_happens_is_not_voted_for",),
    ),
    Mutant(
        "alone-and-wrong",
        "what contradicts itself pays its fee in a block",
        "chain/state_machine/transition.py",
        """        check_stateless(rules, tx)
        origin = rules.ante(ctx, tx, price_millionths=lane.price(in_lane))
""",
        """        origin = rules.ante(ctx, tx, price_millionths=lane.price(in_lane))
        check_stateless(rules, tx)
""",
        (f"{BLOCK_GAS}::test_what_shows_alone_to_be_wrong_is_not_voted_for_and_costs_nothing",),
    ),
    Mutant(
        "no-lane",
        "a block has no lane for duties",
        "chain/state_machine/lane.py",
        "        return LaneDuty(signer, half, min(duty.deadline for duty in found))\n",
        "        return None\n",
        (f"{FULL}::test_a_seats_commitment_is_in_the_next_block_however_much_an_outsider_pays",),
    ),
    Mutant(
        "padded-duty",
        "a duty may declare gas that it never needs",
        "chain/state_machine/lane.py",
        "        if is_known and tx.gas_limit > DUTY_GAS_FACTOR * gas_of(tx):\n",
        "        if is_known and tx.gas_limit > 10**6 * gas_of(tx):\n",
        (f"{FULL}::test_a_duty_declares_little_and_answers_each_panel_once",),
    ),
    Mutant(
        "lane-again",
        "a signer may fill the lane with one duty again and again",
        "chain/state_machine/lane.py",
        "        if duty is None or duty.signer in self._signers[duty.half]:\n",
        "        if duty is None:\n",
        (f"{FULL}::test_a_signer_has_one_transaction_in_each_half",),
    ),
    Mutant(
        "endless-lane",
        "the lane is as large as the block",
        "chain/state_machine/lane.py",
        "        return self._left is None or tx.gas_limit <= self._left[duty.half]\n",
        "        return True\n",
        (f"{FULL}::test_the_lane_has_no_more_than_its_gas",),
    ),
    Mutant(
        "one-price",
        "a full block does not make the next one dearer",
        "chain/state_machine/transition.py",
        "        ctx.open_gas += 0 if in_lane else tx.gas_limit\n",
        "",
        (f"{FULL}::test_a_full_block_makes_the_next_one_dearer_and_an_empty_one_cheaper",),
    ),
    Mutant(
        "pay-later",
        "transactions may move away the coins that later ones have to pay with",
        "chain/state_machine/transition.py",
        """    paid = [pay_tx(ctx, rules, tx, lane, is_in) for tx, is_in in zip(block.txs, in_lane, strict=True)]
    results += [apply_tx(ctx, rules, each) for each in paid]
""",
        """    for tx, is_in in zip(block.txs, in_lane, strict=True):
        results.append(apply_tx(ctx, rules, pay_tx(ctx, rules, tx, lane, is_in)))
""",
        (f"{FULL}::test_coins_that_a_block_moves_away_have_paid_for_it",),
    ),
    Mutant(
        "full-mempool",
        "an outsider may take all places of a mempool",
        "chain/state_machine/mempool.py",
        "            if not in_lane and not recheck:\n                self._check_room(tx)\n",
        "",
        (f"{FULL}::test_half_of_a_mempool_is_for_duties",),
    ),
    Mutant(
        "found-gas",
        "what a message finds in the state weighs nothing",
        "chain/state_machine/gas.py",
        "    ctx.gas_used += gas\n    if",
        "    if",
        (f"{GAS}::test_what_needs_more_than_it_declared_fails_and_pays",),
    ),
    Mutant(
        "simulation-gas",
        "a simulation may be heavier than any transaction",
        "chain/state_machine/mempool.py",
        "        if ctx.gas_used > ctx.gas_limit:\n",
        "        if ctx.gas_used > ctx.gas_limit**2:\n",
        (f"{GAS}::test_a_simulation_runs_nothing_that_no_transaction_may",),
    ),
    Mutant(
        "rules-late-check",
        "what waits for the first block of a version is checked by the version before",
        "chain/state_machine/mempool.py",
        "return rulebook.enter(overlay, HEAD.must(overlay).height + 1)",
        "return rulebook.enter(overlay, HEAD.must(overlay).height)",
        ("tests/unit/chain/state_machine/test_rules.py",),
    ),
    Mutant(
        "rules-no-migration",
        "the state is not migrated when the rules change",
        "chain/state_machine/rules.py",
        "                self._versions[step].migrate(store)\n",
        "                pass\n",
        ("tests/unit/chain/state_machine/test_rules.py",),
    ),
    Mutant(
        "lane-share",
        "a lane does in a block whatever is due",
        "chain/state_machine/gas.py",
        "if used and used + weight > ctx.block.params.of(NodeParams).due_gas * percent // 100:",
        "if used and used + weight > ctx.block.params.of(NodeParams).due_gas * 10**9:",
        (
            f"{GAS}::test_a_heavy_entry_is_first_in_the_next_block_and_none_overtakes_it",
            f"{GAS}::test_a_void_round_takes_those_behind_it_along_one_step_at_a_time",
        ),
    ),
    Mutant(
        "heavy-entry",
        "an entry that is heavier than its lane's share waits for ever",
        "chain/state_machine/gas.py",
        "if used and used + weight > ctx.block.params.of(NodeParams).due_gas * percent // 100:",
        "if used + weight > ctx.block.params.of(NodeParams).due_gas * percent // 100:",
        (f"{GAS}::test_what_is_heavier_than_its_lanes_share_runs_alone",),
    ),
    Mutant(
        "one-budget",
        "the lanes share one budget",
        "chain/state_machine/gas.py",
        "used = ctx.due_gas.get(part, 0)",
        "used = sum(ctx.due_gas.values())",
        (f"{GAS}::test_a_flood_in_one_lane_holds_up_no_other",),
    ),
    Mutant(
        "bounds-of-python",
        "the state machine takes the bounds of messages that Python made for granted",
        "chain/state_machine/handler.py",
        "        if not is_bounded:\n",
        "        if is_bounded:\n",
        ("tests/unit/chain/state_machine/registry/test_handlers.py::test_measurements_are_bounded",),
    ),
    Mutant(
        "amino-gas",
        "the text of amino JSON is made for nothing",
        "chain/state_machine/gas.py",
        "(tx.size + len(tx.amino))",
        "tx.size",
        (f"{SIGNED}::test_a_text_costs_the_gas_of_its_characters",),
    ),
    Mutant(
        "multisig-gas",
        "all members of a multisig account sign for the gas of one",
        "chain/state_machine/gas.py",
        "            gas += ITEM_GAS * (len(signer.parts) - 1)\n",
        "            gas += 0\n",
        (f"{SHARED}::test_each_member_that_signs_costs_gas",),
    ),
    Mutant(
        "payer-in-lane",
        "another account pays for a duty, which has a place of its own in the lane",
        "chain/state_machine/lane.py",
        'if len(tx.signers) != 1 or tx.fee_payer not in ("", signer):',
        "if not tx.signers:",
        (f"{JOINT}::test_a_duty_is_in_the_lane_only_if_its_signer_alone_signs_and_pays",),
    ),
    Mutant(
        "granted-duty-in-the-lane",
        "a duty that another account pays for is in the lane",
        "chain/state_machine/lane.py",
        '        if tx.fee_granter not in ("", signer):\n',
        "        if False:\n",
        (f"{FEE_PAYS}::test_others_do_not_pay_for_a_place_in_the_lane",),
    ),
    Mutant(
        "time-of-the-chain-clock",
        "an undelegation answers with a time of the chain clock, as if the chain had never stood still",
        "chain/state_machine/context.py",
        "        return max(0, self.time_ns - self.clock_ns + clock * NS)\n",
        "        return clock * NS\n",
        (f"{_DELEGATING}::test_messages_answer_with_the_header_time_at_which_coins_are_free",),
    ),
)

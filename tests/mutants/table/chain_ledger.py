"""Mutants of chain_ledger."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import FEE_GRANTS, FEE_PAYS, JOINT, MARKET, SETTLEMENT, SHARED

MINTING = "tests/unit/chain/state_machine/mint/test_minting.py"

MUTANTS = (
    Mutant(
        "part-spent",
        "what is withheld is spent on something else",
        "chain/state_machine/ledger/order_money.py",
        "withhold(used, 0)",
        "used",
        (f"{SETTLEMENT}::test_what_is_withheld_pays_nothing_else",),
    ),
    Mutant(
        "bond-wait",
        "a bond that is asked back arrives a second early",
        "chain/state_machine/ledger/balances.py",
        "if w.release_at <= ctx.clock)",
        "if w.release_at <= ctx.clock + 1)",
        (MARKET,),
    ),
    Mutant(
        "multisig-any-part",
        "one valid signature is enough for a multisig account",
        "chain/state_machine/ledger/ante.py",
        "    for part in signer.signatures(account.pub_key):\n",
        "    for part in signer.signatures(account.pub_key)[:1]:\n",
        (f"{SHARED}::test_a_member_does_not_sign_for_another",),
    ),
    Mutant(
        "multisig-left-out",
        "a multisig account's key may be left out, and one person signs",
        "chain/state_machine/ledger/ante.py",
        "    if not signer.parts and account.is_multisig:\n",
        "    if signer.parts is None and account.is_multisig:\n",
        (f"{SHARED}::test_a_signature_of_one_person_does_not_open_the_account",),
    ),
    Mutant(
        "signers-counted",
        "a payer that did not sign pays",
        "chain/state_machine/ledger/ante.py",
        "    if len(tx.signers) != len(addresses):\n",
        "    if not tx.signers:\n",
        (f"{JOINT}::test_a_payer_that_did_not_sign",),
    ),
    Mutant(
        "signers-first-only",
        "only the first signature of a transaction of several accounts is checked",
        "chain/state_machine/ledger/ante.py",
        "        for account, signer in zip(accounts, tx.signers, strict=True):\n            verify",
        "        for account, signer in zip(accounts[:1], tx.signers[:1], strict=True):\n            verify",
        (f"{JOINT}::test_a_payer_that_signed_something_else",),
    ),
    Mutant(
        "signers-place",
        "accounts may sign in the place of others",
        "chain/state_machine/ledger/ante.py",
        "        if signer.address and signer.address != addresses[at]:\n",
        "        if signer.address and signer.address not in addresses:\n",
        (f"{JOINT}::test_an_account_does_not_sign_for_another_that_never_signed_before",),
    ),
    Mutant(
        "payer-is-first",
        "the first signer pays, whatever the transaction says",
        "chain/state_machine/ledger/ante.py",
        "    payer = tx.fee_payer or addresses[0]\n",
        "    payer = addresses[0]\n",
        (f"{JOINT}::test_another_account_pays",),
    ),
    Mutant(
        "event-bond",
        "a payment does not tell which bond it comes from",
        "chain/state_machine/ledger/order_money.py",
        "apply_payments(ctx, order_id, moves, round, row)",
        "apply_payments(ctx, order_id, moves, round)",
        (f"{SETTLEMENT}::test_the_bonds_of_a_round_return_in_steps",),
    ),
    Mutant(
        "grant-of-anyone",
        "the granter's coins pay for an account that it allowed nothing",
        "chain/state_machine/ledger/ante.py",
        "    uses = FEE_GRANTED(ctx, tx, payer, fee)\n",
        "    uses = [lambda: None]\n",
        (f"{FEE_PAYS}::test_a_grant_is_for_the_payer_of_the_fee",),
    ),
    Mutant(
        "payer-not-granter",
        "the payer's own coins pay, although a granter would",
        "chain/state_machine/ledger/ante.py",
        "        payer = tx.fee_granter\n",
        "        pass\n",
        (f"{FEE_GRANTS}::test_the_granter_pays",),
    ),
    Mutant(
        "grant-not-used-up",
        "a use leaves the limit as it was",
        "chain/state_machine/ledger/ante.py",
        "    for use in uses:\n        use()\n",
        "",
        (f"{FEE_GRANTS}::test_a_limit_shrinks_and_ends_with_its_last_coin",),
    ),
    Mutant(
        "mint-without-supply",
        "minted coins are in no supply, and the chain stops",
        "chain/state_machine/ledger/balances.py",
        "    _add(store, SUPPLY, amount)\n",
        "",
        (f"{MINTING}::test_a_block_mints_for_the_time_since_the_last_one",),
    ),
)

"""Mutants of chain_attest."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import ATTEST_POLICIES, ATTESTATIONS, ATTESTED_RATE, CREDENTIALS

_FOLDER = "chain/state_machine/attest"

MUTANTS = (
    Mutant(
        "attest-anyone-adds-a-policy",
        "an account adds its own policy without a vote",
        f"{_FOLDER}/policies.py",
        "    check_authority(message.authority)\n    if ATTEST_POLICIES.has",
        "    if ATTEST_POLICIES.has",
        (f"{ATTEST_POLICIES}::test_no_account_but_that_of_governance_changes_policies",),
    ),
    Mutant(
        "attest-withdrawn-in-force",
        "a credential of a withdrawn policy lowers the audit rate",
        f"{_FOLDER}/policies.py",
        "    return policy is not None and not policy.withdrawn_at\n",
        "    return policy is not None\n",
        (ATTEST_POLICIES,),
    ),
    Mutant(
        "attest-old-beacon",
        "evidence of last year gives a credential",
        f"{_FOLDER}/handlers.py",
        "    if age > wanted.max_age:\n",
        "    if age < 0:\n",
        (f"{ATTESTATIONS}::test_an_old_beacon_is_refused",),
    ),
    Mutant(
        "attest-flood",
        "any number of requests may be open",
        f"{_FOLDER}/handlers.py",
        "    if OPEN_ATTESTATIONS.get(ctx.store) >= params.attest_open_max:\n",
        "    if OPEN_ATTESTATIONS.get(ctx.store) < 0:\n",
        (f"{ATTESTATIONS}::test_only_so_many_requests_are_open",),
    ),
    Mutant(
        "attest-own-validator-judges",
        "the validator of a provider judges its evidence",
        f"{_FOLDER}/attestations.py",
        '    named = (owner, provider.validator if provider is not None else "")\n',
        '    named = (owner, "")\n',
        (f"{ATTESTATIONS}::test_neither_the_owner_nor_its_validator_judges_evidence",),
    ),
    Mutant(
        "attest-fee-kept",
        "the fee of silent seats is lost",
        f"{_FOLDER}/attestations.py",
        "source=owner, target=owner, amount=left))",
        "source=owner, target=owner, amount=0))",
        (f"{ATTESTATIONS}::test_verdicts_pay_and_cut_seats",),
    ),
    Mutant(
        "attest-shared-device",
        "two accounts have the credential of one device",
        f"{_FOLDER}/credentials.py",
        "        if ctx.clock < free_at:\n",
        "        if ctx.clock < 0:\n",
        (f"{CREDENTIALS}::test_a_device_serves_one_account_at_a_time",),
    ),
    Mutant(
        "attest-passed-on-before-a-ruling",
        "a cheat passes its device on before a panel rules on its share",
        f"{_FOLDER}/credentials.py",
        "        if next(BONDED_SHARES.keys(ctx.store, known.owner), None) is not None:\n",
        "        if False:\n",
        (f"{CREDENTIALS}::test_a_device_is_not_passed_on_before_a_ruling",),
    ),
    Mutant(
        "attest-used-after-a-ban",
        "a banned credential is in force until its end",
        f"{_FOLDER}/credentials.py",
        "    return not credential.banned_at and clock < credential.ends_at",
        "    return clock < credential.ends_at",
        (f"{CREDENTIALS}::test_a_wrong_share_costs_its_provider_the_credential_for_good",),
    ),
    Mutant(
        "attest-attested-after-a-ban",
        "a banned device gets a new credential",
        f"{_FOLDER}/credentials.py",
        "    if known is not None and known.banned_at:\n",
        "    if False:\n",
        (f"{CREDENTIALS}::test_a_wrong_share_costs_its_provider_the_credential_for_good",),
    ),
    Mutant(
        "attest-small-bond",
        "the lower floor holds for shares with the usual bond",
        f"{_FOLDER}/credentials.py",
        " or share.claim.multiple < needed:\n",
        ":\n",
        (f"{ATTESTED_RATE}::test_the_usual_bond_has_the_usual_floor",),
    ),
    Mutant(
        "attest-late",
        "a credential of after a share counts for it",
        f"{_FOLDER}/credentials.py",
        " or credential.since > share.committed_at",
        "",
        (f"{ATTESTED_RATE}::test_one_share_without_a_credential_is_enough_for_the_usual_floor",),
    ),
)

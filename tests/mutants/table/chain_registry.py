"""Mutants of chain_registry."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import SHARED, STAKE_SET

_BEACON = "tests/unit/chain/state_machine/registry/test_beacon.py"
_REGISTRY = "tests/unit/chain/state_machine/registry/test_handlers.py"

MUTANTS = (
    Mutant(
        "reveal-any-block",
        "a decided block makes a beacon of whatever it reveals",
        "chain/state_machine/registry/beacon.py",
        "if duty is None or not ctx.crypto.reveal(duty.pub_key, duty.message, proof):",
        "if duty is None:",
        (_BEACON,),
    ),
    Mutant(
        "beacon-key-comes-back",
        "who gives its key up has the one before again, and so a choice",
        "chain/state_machine/registry/beacon.py",
        "not (was_valid and",
        "not (False and",
        (_BEACON,),
    ),
    Mutant(
        "beacon-key-at-once",
        "a new beacon key counts at once, and its owner tries keys until one suits it",
        "chain/state_machine/registry/beacon.py",
        "BeaconKey(key, ctx.height + ctx.block.params.of(RegistryParams).beacon_delay)",
        "BeaconKey(key, ctx.height)",
        (_BEACON,),
    ),
    Mutant(
        "multisig-provider",
        "a multisig account can be a provider or validator, whose signatures cannot be proven",
        "chain/state_machine/registry/handlers.py",
        "    if account.is_multisig:\n",
        "    if not account.pub_key:\n",
        (f"{SHARED}::test_a_multisig_account_is_neither_provider_nor_validator",),
    ),
    Mutant(
        "admit-by-asking",
        "who asks to join is in the cluster at once, so that rivals become parties",
        "chain/state_machine/registry/handlers.py",
        "    PROVIDERS.put(ctx.store, applicant)\n",
        "    PROVIDERS.put(ctx.store, applicant)\n    admit(ctx, applicant)\n",
        ("tests/unit/chain/state_machine/proof/test_panels.py", _REGISTRY),
    ),
    Mutant(
        "admit-anothers",
        "a validator admits who asked another one",
        "chain/state_machine/registry/handlers.py",
        "    if provider.validator != validator:\n",
        "    if not provider.validator:\n",
        (_REGISTRY,),
    ),
    Mutant(
        "dismiss-with-share",
        "an operator is dismissed before the draw, and audits its own share",
        "chain/state_machine/registry/handlers.py",
        "    provider = _of_validator(ctx, message.provider, message.validator)\n    check_free(",
        "    provider = _of_validator(ctx, message.provider, message.validator)\n    str(",
        (_REGISTRY,),
    ),
    Mutant(
        "returns-keyless",
        "a validator that revoked its key returns without one",
        "chain/state_machine/registry/component.py",
        "        VALIDATOR_UNBONDING.to(update_ready),\n",
        "",
        (f"{STAKE_SET}::test_a_bonded_validator_may_revoke_its_key_and_needs_one_to_return",),
    ),
    Mutant(
        "unpromised-seats",
        "a validator that promised nothing gets seats",
        "chain/state_machine/registry/members.py",
        "    return has_promised and may_serve(validator)\n",
        "    return may_serve(validator)\n",
        (f"{STAKE_SET}::test_a_new_validator_gets_seats_when_it_promises_something",),
    ),
)

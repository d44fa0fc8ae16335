"""Mutants of validator."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import ATTACKS

MUTANTS = (
    Mutant(
        "admission-open",
        "a cluster admits any provider unless its operator says otherwise",
        "validator/daemon.py",
        "admit: Policy = Policy.INVITED",
        "admit: Policy = Policy.OPEN",
        (f"{ATTACKS}/test_a_rivals_operator_does_not_join_a_cluster.py",),
    ),
    Mutant(
        "appeals-are-not-served",
        "a validator serves no seat of a panel whose ruling was appealed, so that every appeal is lost",
        "validator/observer.py",
        "    return panel.is_decided and not panel.awaits_appeal\n",
        "    return panel.is_decided\n",
        ("tests/unit/validator/test_observer.py",),
    ),
    Mutant(
        "payload-deletes-states",
        "a payload that is offered after the states of an earlier leg deletes them",
        "validator/ledger.py",
        "        self.blobs.keep_only(str(local.key), digests | states)\n",
        "        self.blobs.keep_only(str(local.key), digests)\n",
        ("tests/unit/validator/test_states.py",),
    ),
)

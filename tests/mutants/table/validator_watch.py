"""Mutants of validator_watch."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import TOGETHER

_WATCHTOWER = "tests/unit/validator/test_watchtower.py"

MUTANTS = (
    Mutant(
        "watchtower-drawn-places",
        "a watchtower recomputes what a panel has drawn, which brings no reward",
        "validator/watch/choose.py",
        "    return [place for place in places if place not in drawn and place not in checked]\n",
        "    return [place for place in places if place not in checked]\n",
        (_WATCHTOWER,),
    ),
    Mutant(
        "watchtower-forgets",
        "a watchtower that is killed loses the bond of a challenge that it did not open",
        "validator/watch/tower.py",
        "            self.store.put(record)\n            self._sends_at",
        "            self._sends_at",
        (_WATCHTOWER,),
    ),
    Mutant(
        "watchtower-budget",
        "a watchtower locks more than its budget",
        "validator/watch/tower.py",
        "        if locked + bond > self.budget.bond:\n",
        "        if locked > self.budget.bond:\n",
        (_WATCHTOWER,),
    ),
    Mutant(
        "watchtower-own-leg",
        "a watchtower challenges its own leg",
        "validator/watch/choose.py",
        "    return admitted and leg.validator != watch.me\n",
        "    return admitted\n",
        (_WATCHTOWER,),
    ),
    Mutant(
        "together-one-process",
        "a challenge with several machines recomputes a segment in one process",
        "validator/watch/recompute.py",
        "if not together.takes(function):",
        "if together:",
        (f"{TOGETHER}a_challenger_may_use_several_machines",),
    ),
)

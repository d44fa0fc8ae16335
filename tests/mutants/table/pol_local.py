"""Mutants of pol_local."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import HOSTS

_ON_MACHINES = "tests/unit/pol/local/test_on_machines.py"

MUTANTS = (
    Mutant(
        "machines-end-state",
        "a state that a node has changed goes into the update",
        "pol/local/groups.py",
        "if self._group.hash(program, [file.path for file in reads]) != tuple(file.root for file in reads):",
        "if not reads:",
        (f"{HOSTS}states_that_do_not_fit_the_hashes_of_the_machines_are_refused",),
    ),
    Mutant(
        "run-in-memory",
        "a run on several machines loads the first states into memory",
        "pol/local/run.py",
        "loaded = verify_job(directory) if is_together else load_job(directory)",
        "loaded = load_job(directory)",
        (_ON_MACHINES,),
    ),
    Mutant(
        "run-own-state",
        "a slot on several machines begins with the local state of slot 0",
        "pol/local/groups.py",
        "            self._open_own_state(part.slot)\n",
        "            self._open_own_state(0)\n",
        (_ON_MACHINES,),
    ),
    Mutant(
        "run-old-local",
        "each round begins with the first local state of a slot",
        "pol/local/groups.py",
        "        self._locals[part.slot] = local_out\n",
        "",
        (_ON_MACHINES,),
    ),
)

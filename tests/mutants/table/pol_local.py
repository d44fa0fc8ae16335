"""Mutants of pol_local."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import HOSTS

MUTANTS = (
    Mutant(
        "machines-end-state",
        "a state that a node has changed goes into the update",
        "pol/local/groups.py",
        "if end.roots != (boundaries[-1].global_root, boundaries[-1].local_root):",
        "if end.roots == (b'', b''):",
        (f"{HOSTS}states_that_do_not_fit_the_hashes_of_the_machines_are_refused",),
    ),
)

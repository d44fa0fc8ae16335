"""Mutants of pol_state."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "run-aligned",
        "weights are mapped where a back end copies them",
        "pol/state/stored.py",
        "    start = -len(header_chunk(specs)) % _ALIGNMENT\n",
        "    start = 1\n",
        ("tests/unit/pol/local/test_on_machines.py",),
    ),
)

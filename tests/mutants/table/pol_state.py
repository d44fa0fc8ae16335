"""Mutants of pol_state."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "header-of-another-state",
        "a state has the header of one with other shapes",
        "pol/state/canonical.py",
        "    return name, dtype_name(array, name), array.shape\n",
        "    return name, dtype_name(array, name), (array.size,)\n",
        ("tests/unit/pol/state/test_canonical.py::test_each_state_has_its_own_header",),
    ),
    Mutant(
        "run-aligned",
        "weights are mapped where a back end copies them",
        "pol/state/stored.py",
        "    start = -len(header_chunk(specs)) % _ALIGNMENT\n",
        "    start = 1\n",
        ("tests/unit/pol/local/test_on_machines.py",),
    ),
)

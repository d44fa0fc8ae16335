"""The sweep over which declared work is measured leaves nothing out."""

from benchmarks import work
from pol.ops.table import PRIMITIVES


def test_every_primitive_has_cases_that_are_programs() -> None:
    cases = list(work.sweep())
    assert {case.op for case in cases} == set(PRIMITIVES)
    assert all(work._program(case).work.flops > 0 for case in cases)

"""The disputes whose blocks are measured: what the benchmark sends takes effect, unless the row says otherwise."""

from collections.abc import Callable

import pytest

from benchmarks import block_disputes
from benchmarks.figures import Row

KINDS = (block_disputes.deliveries, block_disputes.inclusions, block_disputes.challenges, block_disputes.stands)
FEW = {"challenges": 1}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_measured_takes_effect(kind: Callable[[int], list[Row]]) -> None:
    cases = [row.case for row in kind(FEW.get(kind.__name__, 8))]
    assert [case for case in cases if "refused" in case and "right pieces" not in case] == []
    messages = [case for case in cases if case[0].isupper()]
    assert messages
    assert not any(case.endswith("(0)") for case in messages)

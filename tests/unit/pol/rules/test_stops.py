"""Where a job stops: what shares state of it, the first place of a round, and the work that is done."""

from dataclasses import replace

import pytest

from domain.proof.records import AuditKind, AuditPlace, ShareRoots
from pol.rules.schedule import share_work
from pol.rules.stops import AGGREGATION, check_roots, done_work, find_stop, stop_of
from tests.support.chain_market import digest, make_terms

TERMS = make_terms()
"""2 slots of 2 segments."""
WHOLE = ShareRoots(digest("trace"), digest("update"), digest("local"), (1,), 2)
ENDS = replace(WHOLE, update_root=b"", local_out=b"", segments=1)
AT_ONCE = ShareRoots(b"", b"", b"", (), 0)


def test_a_share_is_whole_or_ends_where_the_job_stopped() -> None:
    for roots in (WHOLE, ENDS, AT_ONCE, replace(ENDS, segments=2), replace(ENDS, metrics=())):
        assert check_roots(TERMS, roots) == ""


@pytest.mark.parametrize(
    "roots",
    [
        replace(WHOLE, segments=1),
        replace(WHOLE, segments=3),
        replace(WHOLE, trace_root=b""),
        replace(WHOLE, local_out=b""),
        replace(WHOLE, update_root=b""),
        replace(ENDS, segments=3),
        replace(ENDS, segments=0),
        replace(ENDS, trace_root=b""),
        replace(AT_ONCE, metrics=(1,)),
        replace(AT_ONCE, trace_root=digest("trace")),
    ],
)
def test_what_is_neither_is_told(roots: ShareRoots) -> None:
    assert check_roots(TERMS, roots)


def test_the_first_place_without_a_result_is_where_one_machine_would_stop() -> None:
    segment, update = AuditPlace(AuditKind.SEGMENT, 1, 4, 1), AuditPlace(AuditKind.UPDATE, 1, 4, 2)
    assert stop_of(TERMS, 1, 4, WHOLE) is None
    assert stop_of(TERMS, 1, 4, ENDS) == segment
    assert stop_of(TERMS, 1, 4, replace(ENDS, segments=2)) == update
    assert find_stop(TERMS, [(0, 1, WHOLE), (1, 4, ENDS)]) == segment
    assert find_stop(TERMS, [(0, 1, AT_ONCE), (1, 4, ENDS)]) == AuditPlace(AuditKind.SEGMENT, 0, 1, 0)
    assert find_stop(TERMS, [(0, 1, WHOLE), (1, 4, WHOLE)]) == AGGREGATION


def test_whole_segments_are_the_work_of_a_share() -> None:
    assert done_work(TERMS, WHOLE) == share_work(TERMS)
    assert 2 * done_work(TERMS, ENDS) == share_work(TERMS)
    assert done_work(TERMS, AT_ONCE) == 0

"""The record of a leg: a share is found at its place, and put back there without touching anything else."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from domain.keys import ShareKey
from tests.unit.validator.support import LOCAL, ORDER_ID, state
from validator.decide.records import LocalOrder, LocalRound, SlotWork, new_order

_NAMES = st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 3)), min_size=1)


def work(slot: int, issue: int) -> SlotWork:
    return SlotWork(
        slot=slot,
        issue=issue,
        provider="p0",
        local_in=state("local"),
        answer_by=0,
        signed=None,
        deliver_by=0,
        packet=None,
        open_by=0,
        picks=(),
        openings=(),
        checked=(),
        broken=(),
        verdict=0,
        settled=False,
    )


def record(names: set[tuple[int, int, int]]) -> LocalOrder:
    rounds = []
    for round in sorted({round for round, _, _ in names}):
        works = tuple(work(slot, issue) for at, slot, issue in sorted(names) if at == round)
        rounds.append(
            LocalRound(
                round=round,
                global_in=state("global"),
                works=works,
                next_global=None,
                suspects=(),
                audit_by=0,
                sealed=None,
            )
        )
    return replace(new_order(ORDER_ID, 1), rounds=tuple(rounds))


@given(_NAMES, st.data())
def test_a_share_is_put_back_at_its_place_alone(names: set[tuple[int, int, int]], data: st.DataObject) -> None:
    local = record(names)
    round, slot, issue = data.draw(st.sampled_from(sorted(names)))
    at = local.at(round, slot, issue)
    assert at is not None
    assert (at.current.round, at.work.slot, at.work.issue) == (round, slot, issue)
    assert at.key == ShareKey(ORDER_ID, 1, round, slot, issue)
    assert local.share(at.key) == at
    assert at.put(at.work) == local
    changed = at.put(replace(at.work, answer_by=7))
    for name in names:
        there = changed.at(*name)
        assert there is not None
        assert there.work.answer_by == (7 if name == (round, slot, issue) else 0)
        assert replace(there.work, answer_by=0) == work(*name[1:])
    assert [known.round for known in changed.rounds] == [known.round for known in local.rounds]


@given(_NAMES)
def test_a_share_that_is_not_there_is_not_found(names: set[tuple[int, int, int]]) -> None:
    local = record(names)
    assert local.at(3, 0, 1) is None
    assert local.at(min(names)[0], 0, 9) is None
    key = ShareKey(ORDER_ID, 1, *min(names))
    assert local.share(key) is not None
    assert local.share(replace(key, leg=2)) is None
    assert local.share(replace(key, order_id=LOCAL.sha256)) is None

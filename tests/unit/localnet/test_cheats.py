"""Each way to cheat is wrong where it says, right everywhere else, and refused on any real chain."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compute_provider.work.worker import UPDATE
from localnet import cheats
from localnet.cheats import CheatError
from pol.errors import StateError
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob, load_job
from pol.replay.replay import replay_segment
from pol.state.canonical import decode_state, state_tree
from pol.work.records import Boundary
from pol.work.segments import SlotState
from pol.work.train import share_update
from tests.unit.compute_provider.support import CHAIN, TINY, task
from tests.unit.compute_provider.work.training import KEY, PART, SEGMENTS, Listener, order

HONEST = ("compute_provider.work.worker",)


@pytest.fixture(scope="module")
def loaded() -> LoadedJob:
    return load_job(TINY)


@pytest.mark.parametrize("text", ["", "nonsense", "late@", "late@x", "late@-1", "Late"])
def test_unknown_ways_to_cheat_are_refused(text: str) -> None:
    with pytest.raises(CheatError, match="no way to cheat called"):
        cheats.parse(text, CHAIN)


def test_cheating_is_for_local_chains_only() -> None:
    with pytest.raises(CheatError, match="assay-local"):
        cheats.parse("late", "assay-1")


def test_a_cheat_keeps_to_its_round() -> None:
    in_round = [replace(KEY, round=number) for number in (2, 3)]
    once = cheats.parse("skip_training@3", "assay-local-x")
    assert once.worker(in_round[0]) == HONEST
    assert once.worker(in_round[1]) == ("localnet.cheats", "worker", "skip_training")
    late = cheats.parse("late@3", "assay-local-x")
    tasks = [replace(task(), key=key) for key in in_round]
    assert [late.delay(each) for each in tasks] == [0, 2 * tasks[1].seconds_left + 2]
    always = cheats.parse("late", "assay-local-x")
    assert 0 not in [always.delay(each) for each in tasks]
    never = cheats.parse("never_answer", "assay-local-x")
    assert [never.delay(each) for each in tasks] == [None, None]
    assert never.worker(KEY) == HONEST


def faults(loaded: LoadedJob, folder: Path, trace: tuple[Boundary, ...]) -> tuple[set[int], str]:
    """Return the segments that do not replay, and what is wrong with the update."""
    document = loaded.job.document

    def states(index: int) -> tuple[Any, Any]:
        boundary = trace[index]
        state = decode_state((folder / f"{index}.global").read_bytes(), document.global_tensors)
        local = decode_state((folder / f"{index}.local").read_bytes(), document.local_tensors)
        assert state_tree(state).root == boundary.global_root  # every opening hashes to its leaf
        assert state_tree(local).root == boundary.local_root
        return state, local

    wrong = set()
    for index in range(len(trace) - 1):
        replayed = replay_segment(loaded, PART, index, *states(index), backend(Engine("numpy")))
        if replayed.boundary.root != trace[index + 1].root:
            wrong.add(index)
    closing, local_out = states(len(trace) - 1)
    result = share_update(loaded, loaded.global_state, SlotState(closing, local_out), backend(Engine("numpy")))
    try:
        update = decode_state((folder / UPDATE).read_bytes(), loaded.job.updated)
    except StateError:
        return wrong, "malformed"
    return wrong, "" if state_tree(update).root == result.update_root else "wrong"


@pytest.mark.parametrize(
    ("method", "segments", "update"),
    [
        ("", set(), ""),
        ("slow", set(), ""),
        ("skip_training", set(range(1, 4)), ""),
        ("wrong_trace", set(range(5)), ""),
        ("wrong_segment", {1, 2}, ""),
        ("wrong_update", set(), "wrong"),
        ("garbage", set(), "malformed"),
    ],
)
def test_each_way_to_cheat_is_wrong_where_it_says(
    tmp_path: Path, loaded: LoadedJob, method: str, segments: set[int], update: str
) -> None:
    listener = Listener(tmp_path)
    behaviour = cheats.parse(method, CHAIN) if method else None
    listener.run(order(tmp_path), behaviour)
    trace = listener.boundaries()
    assert [b.index for b in trace] == list(range(SEGMENTS + 1))
    assert [b.step for b in trace] == [2 * index for index in range(SEGMENTS + 1)]
    assert faults(loaded, tmp_path, trace) == (segments, update)

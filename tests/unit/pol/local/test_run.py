"""The whole job at home: with one slot, rounds change nothing; with several, all of them are averaged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pol.errors import AggregationFailed, NotFiniteStep, StepFailed
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.document import JobDocument
from pol.job.load import load_job
from pol.job.write import write_job
from pol.local.run import LocalRun, run_locally
from pol.state.canonical import state_tree
from pol.work.records import RoundSlot
from pol.work.train import aggregate, train_share
from tests.unit.pol.odd_jobs import (
    Change,
    beyond_the_table,
    halved,
    infinite,
    none_at,
    none_from,
    write_odd_job,
)
from tests.unit.pol.tiny import FIXTURE, tiny_source


def divided(directory: Path, rounds: int, slots: int, round_steps: int) -> JobDocument:
    """Write the checked-in job with another division."""
    return write_job(directory, tiny_source(rounds, slots, round_steps)).document


def run(directory: Path, *division: int) -> LocalRun:
    divided(directory, *division)
    return run_locally(directory)


def test_with_one_slot_rounds_change_no_bit(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 1, 1, 20)
    for rounds in (2, 5, 20):
        parts = run(tmp_path / str(rounds), rounds, 1, 20 // rounds)
        assert len(parts.rounds) == rounds
        assert parts.rounds[-1].state_root == whole.rounds[-1].state_root
        assert np.array_equal(parts.history, whole.history)
        assert np.array_equal(parts.history, whole.history)


def test_with_several_slots_a_round_ends_in_their_mean(tmp_path: Path) -> None:
    done = run(tmp_path, 2, 4, 5)
    loaded = load_job(tmp_path)
    state, local = loaded.global_state, [loaded.local_state] * 4
    for round in range(2):
        shares = [
            train_share(loaded, RoundSlot(round, slot), state, local[slot], backend=backend(Engine("numpy")))
            for slot in range(4)
        ]
        local = [share.local_out for share in shares]
        state = {
            name: np.mean([s.global_out[name].astype(np.float64) for s in shares], axis=0).astype(np.float32)
            for name in state
        }
        assert state_tree(state).root.hex() == done.rounds[round].state_root
    assert len({share.update_root for share in shares}) == 4
    assert done.rounds[-1].state_root != run(tmp_path / "once", 1, 4, 10).rounds[-1].state_root


def test_one_slot_aggregates_to_its_closing_state(tmp_path: Path) -> None:
    divided(tmp_path, 1, 1, 20)
    loaded = load_job(tmp_path)
    states = loaded.global_state, loaded.local_state
    share = train_share(loaded, RoundSlot(0, 0), *states, backend=backend(Engine("numpy")))
    result = aggregate(loaded, states[0], [share.update], backend(Engine("numpy")))
    assert result.root == share.boundaries[-1].global_root


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_only_the_rounds_that_are_asked_for(tmp_path: Path, name: str) -> None:
    seen: list[tuple[int, int, int]] = []
    done = run_locally(FIXTURE, 1, Engine(name), lambda *place: seen.append(place[:3]))
    assert seen == [(0, slot, step) for slot in range(2) for step in range(10)]
    assert [report.round for report in done.rounds] == [0]
    assert replace(done, rounds=()).after == done.rounds[0].metrics


def write_stopping(directory: Path, step: Change, outer: Change | None = None) -> Path:
    """Write a job of 2 rounds of 2 slots of 4 segments of 2 steps."""
    write_odd_job(directory, step, outer, segment_steps=2, segments=4)
    return directory


def test_a_job_stops_at_the_first_place_without_a_result_and_says_which(
    tmp_path: Path,
) -> None:
    job = write_stopping(tmp_path, none_at(2 * 13 + 1))
    with pytest.raises(NotFiniteStep) as caught:
        run_locally(job)
    assert caught.value.step == 13
    where = "the job stops in round 1, slot 1, step 13, global.w"
    assert str(caught.value) == f"{where}: holds NaN or infinity"
    assert len(run_locally(job, rounds=1).rounds) == 1


def test_where_every_slot_breaks_the_first_one_is_named(tmp_path: Path) -> None:
    """Slot 1 breaks a step before slot 0 does, and one machine never comes there."""
    with pytest.raises(NotFiniteStep, match=r"round 0, slot 0, step 4"):
        run_locally(write_stopping(tmp_path, none_from(2 * 3 + 1)))


def test_a_row_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match=r"slot 0, step 0, take: .*row 263, .* rows 0\.\.255"):
        run_locally(write_stopping(tmp_path, beyond_the_table))


def test_an_aggregation_without_a_result_is_named(tmp_path: Path) -> None:
    with pytest.raises(AggregationFailed, match=r"stops in round 0, aggregation, global\.w"):
        run_locally(write_stopping(tmp_path / "a", halved, infinite))

"""A job whose updates are coded: what is trained, replayed, audited and handed on, and what stops it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from domain.proof.reasons import ShareReason
from domain.proof.records import AnswerKind
from pol.capture.author.codecs import Dense, Sparse
from pol.capture.author.measures import cross_entropy
from pol.capture.author.spec import JobSpec
from pol.capture.build import build
from pol.errors import JobError, ReplayError, StateError, Stopped, UpdateFailed
from pol.executor.backend import backend
from pol.executor.names import BACKENDS, Engine
from pol.job import cost
from pol.job.document import JobDocument, dump_job, order_terms, parse_job
from pol.job.load import LoadedJob, load_job
from pol.job.program import Program, ProgramBuilder
from pol.job.updates import CODED, DIFFERENCE, KINDS
from pol.local.run import run_locally
from pol.replay.narrow import HonestRun, TraceParty, narrow
from pol.replay.replay import STATES_FOLDER, verify_trace
from pol.replay.trace_file import Trace, read_trace
from pol.replay.trial import try_job
from pol.replay.walk import SeenValue, walk_aggregation, walk_update
from pol.rules import panels, schedule, stops
from pol.rules.commitment import update_claim
from pol.state.arrays import NUMPY_DTYPES
from pol.state.canonical import encode_state, state_tree
from pol.state.layout import encoded_size
from pol.work.records import RoundSlot
from pol.work.segments import SlotState
from pol.work.train import aggregate, share_update, train_share
from pol.work.updates.table import CODECS
from validator.work import requests
from validator.work.checks import exact

SLOTS, ROUNDS, ROUND_STEPS = 2, 3, 4
UPDATE = Sparse(keep=16, chunk=128)
NUMPY = backend(Engine("numpy"))


def spec(**changes: Any) -> JobSpec:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(64, 12, generator=generator)
    made = JobSpec(
        name="coded",
        model=nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2)),
        loss=cross_entropy(),
        train={"x": x, "y": (x[:, 0] > 0).long()},
        holdout={"x": x[:8], "y": (x[:8, 0] > 0).long()},
        batch=4,
        steps=ROUNDS * ROUND_STEPS,
        slots=SLOTS,
        round_steps=ROUND_STEPS,
        segment_steps=2,
        update=UPDATE,
    )
    return replace(made, **changes)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coded") / "job"
    build(spec(), folder)
    return folder


@pytest.fixture(scope="module")
def loaded(job: Path) -> LoadedJob:
    return load_job(job)


@pytest.fixture(scope="module")
def run(job: Path) -> tuple[Path, Trace]:
    out = job.parent / "run"
    run_locally(job, engine=Engine("numpy"), out=out, keep_states=True)
    return out, read_trace(out / "trace.json")


def test_the_tables_of_updates_have_the_same_kinds() -> None:
    assert CODECS.keys() == KINDS.keys()
    assert [name for name, kind in KINDS.items() if not kind.reads_opening] == ["closing"]


def test_an_update_is_small_and_the_residue_is_the_slots(loaded: LoadedJob) -> None:
    job = loaded.job
    names = [name for name in loaded.local_state if name.startswith("update_residue.")]
    assert names == ["update_residue.0.weight"]
    assert [s.name for s in job.update_tensors] == ["levels", "plain", "words"]
    assert cost.update_size(job.document) == encoded_size(job.update_tensors) == order_terms(job).update_bytes
    assert cost.plain_update_size(job.document) > 1.4 * cost.update_size(job.document)
    # the step neither reads nor writes the residue
    assert not any("residue" in spec.name for spec in job.document.step.inputs)


def test_the_last_boundary_has_the_local_state_before_close(loaded: LoadedJob) -> None:
    states: list[tuple[Any, Any]] = []
    share = train_share(
        loaded,
        RoundSlot(0, 0),
        loaded.global_state,
        loaded.local_state,
        backend=NUMPY,
        on_boundary=lambda _, first, second: states.append((first, second)),
    )
    last = share.boundaries[-1]
    assert share.local_out_root == state_tree(share.local_out).root != last.local_root
    assert share.update_root == state_tree(share.update).root
    end = SlotState(*states[-1])
    again = share_update(loaded, loaded.global_state, end, NUMPY)
    assert (again.update_root, again.local_out_root) == (share.update_root, share.local_out_root)
    assert share.local_out["update_residue.0.weight"].any()
    assert not states[-1][1]["update_residue.0.weight"].any()
    with pytest.raises(StateError):
        share_update(loaded, loaded.global_state, end.with_local({}), NUMPY)


@pytest.mark.parametrize("name", BACKENDS)
def test_each_back_end_ends_in_the_same_state(job: Path, run: tuple[Path, Trace], name: str) -> None:
    assert run_locally(job, engine=Engine(name)).rounds[-1].state_root == run[1].round_roots[-1].hex()


def test_a_trace_holds_from_its_beginning_and_from_kept_states(job: Path, run: tuple[Path, Trace]) -> None:
    out, trace = run
    for options in ({}, {"segments": 1, "states": out / STATES_FOLDER}):
        checks = verify_trace(trace, job, engine=Engine("numpy"), **options)  # type: ignore[arg-type]
        assert len(checks) == ROUNDS * (SLOTS + 1)
        assert [check.fault for check in checks if not check.holds] == []


@pytest.mark.parametrize(
    ("field", "fault"),
    [("update_root", "the update does not follow"), ("local_out_root", "the local state at the end")],
)
def test_a_wrong_update_or_residue_is_a_fault(job: Path, run: tuple[Path, Trace], field: str, fault: str) -> None:
    out, trace = run
    shares = list(trace.shares)
    shares[1] = replace(shares[1], **{field: bytes(32)})  # type: ignore[arg-type]
    for options in ({}, {"segments": 1, "states": out / STATES_FOLDER}):
        checks = verify_trace(replace(trace, shares=tuple(shares)), job, engine=Engine("numpy"), **options)  # type: ignore[arg-type]
        assert fault in next(check.fault for check in checks if not check.holds)


def test_a_job_that_goes_on_takes_the_residues_along(job: Path, run: tuple[Path, Trace], tmp_path: Path) -> None:
    build(spec(steps=ROUND_STEPS), tmp_path / "first")
    first = run_locally(tmp_path / "first", engine=Engine("numpy"))
    build(spec(steps=(ROUNDS - 1) * ROUND_STEPS, resume=first), tmp_path / "rest")
    assert run_locally(tmp_path / "rest", engine=Engine("numpy")).rounds[-1].state_root == run[1].round_roots[-1].hex()
    with pytest.raises(JobError, match="update_residue"):
        build(spec(steps=ROUND_STEPS, resume=first, update=Dense()), tmp_path / "dense")


# --- value by value ---


def test_a_walk_sees_the_operations_of_close_and_the_codes(loaded: LoadedJob, run: tuple[Path, Trace]) -> None:
    trace = run[1]
    honest = HonestRun(loaded, NUMPY, ())
    shares = trace.shares[:SLOTS]
    opening, ends = loaded.global_state, [honest.at(share, share.segments) for share in shares]
    seen: list[SeenValue] = []
    assert walk_update(loaded, opening, ends[0], NUMPY, seen.append) == shares[0].update_root
    close = loaded.job.document.close
    assert close is not None
    assert len([each for each in seen if each.node is not None]) == len(close.nodes)
    updates = [share_update(loaded, opening, end, NUMPY).update for end in ends]
    seen.clear()
    assert walk_aggregation(loaded, opening, updates, NUMPY, seen.append) == trace.round_roots[0]
    assert [each.spot.name for each in seen[:3]] == ["codes of levels", "codes of plain", "codes of words"]
    assert narrow(TraceParty("", trace), None, loaded, NUMPY) is None


# --- validators ---


def test_a_seat_recomputes_the_claim_and_a_check_reads_the_files(job: Path, loaded: LoadedJob, tmp_path: Path) -> None:
    states: list[Any] = []
    share = train_share(
        loaded,
        RoundSlot(0, 1),
        loaded.global_state,
        loaded.local_state,
        backend=NUMPY,
        on_boundary=lambda boundary, *both: states.append((boundary, [encode_state(state) for state in both])),
    )
    boundary, closing = states[-1]
    files = {"global": closing[0], "local": closing[1], "update": encode_state(share.update)}
    files["local_out"] = encode_state(share.local_out)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    pair = requests.StateFiles(tmp_path / "global", tmp_path / "local")
    opened = requests.OpenedStates(pair, boundary.metrics, boundary.root)
    opening = requests.RootedFile(job / "global.state", loaded.job.document.global_root)
    found = exact.recompute_update(requests.UpdateAudit(job, opening, opened, (b"seed",), Engine("numpy")))
    assert found.kind == AnswerKind.FINISHED
    assert found.root == update_claim(share.update_root, share.local_out_root, boundary.metrics)

    def checked(local_out: str, local_root: bytes) -> int:
        return exact.check_update(
            requests.UpdateCheck(
                directory=job,
                round_opening=job / "global.state",
                closing=opened,
                update=tmp_path / "update",
                local_out=tmp_path / local_out,
                update_root=share.update_root,
                local_root=local_root,
                engine=Engine("numpy"),
            )
        ).reason

    assert checked("local_out", share.local_out_root) == ShareReason.NONE
    # the local state before close is another one: as a claim, and as a file
    assert checked("local", boundary.local_root) == ShareReason.UPDATE_MISMATCH
    assert checked("local", share.local_out_root) == ShareReason.MALFORMED


def test_close_is_work_that_providers_and_seats_are_paid_for(loaded: LoadedJob) -> None:
    terms = order_terms(loaded.job)
    plain = replace(terms, close_work=0)
    assert terms.close_work == loaded.job.document.close_flops == cost.close_work(loaded.job.document) > 0
    assert schedule.share_work(terms) - schedule.share_work(plain) == terms.close_work
    assert panels.update_work(terms) - panels.update_work(plain) == terms.close_work
    assert schedule.trial_work(terms) - schedule.trial_work(plain) == 2 * terms.close_work
    assert schedule.segment_work(terms) == schedule.segment_work(plain)
    whole = type("Roots", (), {"segments": 2, "steps": 0, "is_whole": True})()
    stopped = type("Roots", (), {"segments": 2, "steps": 0, "is_whole": False})()
    assert stops.done_work(terms, whole) == schedule.share_work(terms)
    assert stops.done_work(terms, stopped) == schedule.share_work(plain)


def test_a_trial_times_close(loaded: LoadedJob) -> None:
    assert try_job(loaded, 0, range(SLOTS), NUMPY).close > 0


# --- documents and jobs that stop ---


def _with(loaded: LoadedJob, close: Program | None, outer: Program | None = None, **changes: Any) -> JobDocument:
    made = replace(loaded.job.document, close=close, outer=outer or loaded.job.document.outer, **changes)
    made = replace(made, close_flops=cost.close_work(made))
    return replace(made, outer_flops=cost.outer_work(made))


def _close(change: Callable[[ProgramBuilder, int], int], name: str = "update.plain") -> Program:
    builder = ProgramBuilder()
    value = builder.input("closing.0.bias", "f32", (24,))
    builder.output(name, change(builder, value))
    return builder.build()


def _refused(document: JobDocument) -> JobError:
    with pytest.raises(JobError) as caught:
        parse_job(dump_job(document))
    return caught.value


def test_close_goes_with_coded_updates_only(loaded: LoadedJob) -> None:
    document = loaded.job.document
    assert _refused(replace(document, aggregation=DIFFERENCE)).field == "close"
    assert _refused(replace(document, close=None, close_flops=0)).field == "close"
    assert _refused(replace(document, close_flops=document.close_flops + 1)).field == "close_flops"
    assert dump_job(parse_job(dump_job(document)).document) == dump_job(document)


@pytest.mark.parametrize(
    ("close", "field", "reason"),
    [
        (lambda: _close(lambda _, value: value, "global.0.bias"), "close.outputs.global.0.bias", "may not write"),
        (lambda: _close(lambda _, value: value, "local.none"), "close.outputs.local.none", "may not write"),
        (
            lambda: _close(lambda b, value: b.node("broadcast", value, shape=[64, 24])),
            "close.outputs",
            "more than the",
        ),
        (lambda: _close(lambda b, _: b.input("batch.x", "f32", (4, 12))), "close.inputs[1].name", "may not read"),
    ],
    ids=["writes the global state", "writes an unknown tensor", "is larger", "reads the batch"],
)
def test_a_close_that_no_job_may_have(loaded: LoadedJob, close: Callable[[], Program], field: str, reason: str) -> None:
    error = _refused(_with(loaded, close()))
    assert error.field == field
    assert reason in error.reason


def test_an_update_without_tensors_is_refused(loaded: LoadedJob) -> None:
    builder = ProgramBuilder()
    builder.output("local.update_residue.0.weight", builder.input("local.update_residue.0.weight", "f32", (24, 12)))
    error = _refused(_with(loaded, builder.build()))
    assert (error.field, error.reason) == ("close.outputs", "the update has no tensors")


def _infinite(loaded: LoadedJob) -> LoadedJob:
    """Return the job with a close that has no result."""

    def none(builder: ProgramBuilder, value: int) -> int:
        return builder.node("div", value, builder.node("sub", value, value))

    document = replace(loaded.job.document, close=_close(none))
    return replace(loaded, job=replace(loaded.job, document=document))


def test_a_close_without_a_result_stops_the_job_at_the_update(loaded: LoadedJob) -> None:
    stopped = _infinite(loaded)
    reached: list[int] = []
    with pytest.raises(UpdateFailed):
        train_share(
            stopped,
            RoundSlot(0, 0),
            loaded.global_state,
            loaded.local_state,
            backend=NUMPY,
            on_boundary=lambda boundary, *_: reached.append(boundary.index),
        )
    assert reached == [0, 1, 2]
    end = SlotState(loaded.global_state, loaded.local_state)
    with pytest.raises(UpdateFailed):
        walk_update(stopped, loaded.global_state, end, NUMPY, lambda _: None)
    with pytest.raises(Stopped):
        try_job(stopped, 0, range(SLOTS), NUMPY)


def test_a_round_needs_the_codes_of_every_slot(loaded: LoadedJob) -> None:
    update = {spec.name: np.zeros(spec.shape, NUMPY_DTYPES[spec.dtype]) for spec in loaded.job.update_tensors}
    for count in (SLOTS - 1, SLOTS + 1):
        with pytest.raises(ReplayError, match="one update for each of 2 slots"):
            aggregate(loaded, loaded.global_state, [update] * count, NUMPY)
    with pytest.raises(StateError):
        aggregate(loaded, loaded.global_state, [{**update, "levels": update["plain"]}] * SLOTS, NUMPY)
    # nothing moved, so that only the outer optimizer could change the state
    ended = aggregate(loaded, loaded.global_state, [update] * SLOTS, NUMPY)
    assert ended.root == loaded.job.document.global_root


def test_memory_counts_the_codes_of_all_slots_and_close(loaded: LoadedJob) -> None:
    document = loaded.job.document
    assert document.close is not None
    assert KINDS[CODED].size(document) == 2 * sum(spec.type.size for spec in loaded.job.update_tensors)
    assert cost.closing_size(document) == document.close.peak_size
    assert cost.memory_size(document) >= cost.closing_size(document)


# --- what an author may ask for ---


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"update": Sparse}, "update"),
        ({"update": "sparse"}, "update"),
        ({"ema": 0.9}, "ema"),
        ({"update": Sparse()}, "update"),
    ],
    ids=["a class", "a word", "moving averages", "nothing to code"],
)
def test_a_spec_that_cannot_be_coded(changes: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(JobError) as caught:
        build(spec(**changes), tmp_path / "job")
    assert caught.value.field == field

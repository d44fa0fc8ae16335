"""A difference at each level is narrowed to the value at which it begins."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domain import codec
from pol.errors import RangeError, TraceError
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import BACKENDS, Engine
from pol.job.load import LoadedJob, load_job
from pol.local.run import run_locally
from pol.replay.narrow import HonestRun, Level, Narrowed, TraceParty, find_departure, make_record, narrow
from pol.replay.operations import OperationRunner, value_hash
from pol.replay.place_record import PlaceRecord, read_record, record_name, write_record
from pol.replay.trace_file import RoundEnd, ShareRecord, Trace, read_trace, share_record
from pol.replay.walk import PlaceKind, SeenValue
from pol.rules.commitment import boundary_root
from pol.work.records import Boundary
from pol.work.segments import slot_state, step_inputs
from tests.support.liar import OperationLiar
from tests.unit.pol.executor.ops import bits
from tests.unit.pol.mlp import write_mlp_job

NUMPY = backend(Engine("numpy"))
ROUND, SLOT, SEGMENT = 1, 1, 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds of two slots with two segments of two steps, and an honest run that kept its states."""
    made = tmp_path_factory.mktemp("narrow")
    write_mlp_job(made)
    run_locally(made, out=made / "honest", keep_states=True)
    return made


@pytest.fixture(scope="module")
def loaded(folder: Path) -> LoadedJob:
    return load_job(folder)


def party(run: Path, name: str = "") -> TraceParty:
    return TraceParty(
        name=name or run.name, trace=read_trace(run / "trace.json"), states=run / "states", records=run / "records"
    )


def place_values(folder: Path, loaded: LoadedJob, kind: PlaceKind, executor: Backend = NUMPY) -> list[SeenValue]:
    """The values of an honest recomputation of a place of the honest run."""
    honest = party(folder / "honest")
    other = replace(honest.trace.shares[ROUND * 2 + SLOT], update_root=bytes(32))
    if kind is PlaceKind.SEGMENT:
        share = honest.trace.shares[ROUND * 2 + SLOT]
        changed = replace(share.boundaries[SEGMENT + 1], root=bytes(32))
        other = replace(share, boundaries=(*share.boundaries[: SEGMENT + 1], changed))
    shares = (*honest.trace.shares[: ROUND * 2 + SLOT], other)
    rounds = honest.trace.rounds
    if kind is PlaceKind.AGGREGATION:
        shares, rounds = honest.trace.shares, (*rounds[:ROUND], RoundEnd(bytes(32)))
    found = find_departure(honest.trace, replace(honest.trace, shares=shares, rounds=rounds))
    assert found is not None
    assert found.kind is kind
    seen: list[SeenValue] = []
    HonestRun(loaded, executor).walk(honest.trace, found)(executor, seen.append)
    return seen


@dataclass(frozen=True)
class LyingRun:
    """A whole run on a machine that computes one value wrongly, without records."""

    party: TraceParty
    liar: OperationLiar
    lied: SeenValue

    def at(self, records: Path | None) -> TraceParty:
        return replace(self.party, records=records)


def lying_run(job: Path, out: Path, lied: SeenValue) -> LyingRun:
    assert lied.node is not None
    liar = OperationLiar(NUMPY, lied.node.op, tuple(map(value_hash, lied.operands)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pol.local.run.backend", lambda _: liar)
        run_locally(job, out=out, keep_states=True)
    return LyingRun(replace(party(out, "theirs"), records=None), liar, lied)


@pytest.fixture(scope="module")
def lie(folder: Path, loaded: LoadedJob) -> LyingRun:
    """A run with one wrong product, in the second step of a segment."""
    return lying_run(folder, folder / "theirs", middle_operation(place_values(folder, loaded, PlaceKind.SEGMENT)))


def record_of(made: TraceParty, loaded: LoadedJob, executor: Backend, kind: PlaceKind = PlaceKind.SEGMENT) -> Path:
    record = make_record(made, loaded, executor, kind, ROUND, SLOT, SEGMENT)
    assert made.records is not None
    path = made.records / record_name(kind, record.round, record.slot, record.segment)
    write_record(record, path)
    return path


def middle_operation(values: list[SeenValue]) -> SeenValue:
    """An operation in the second step, on operands that no other operation has."""
    floats = [v for v in values if v.node is not None and v.node.op == "mul" and v.value.size > 1 and v.spot.step == 7]
    return floats[len(floats) // 2]


# --- operation by operation ----------------------------------------------------------------------


@pytest.mark.parametrize("name", BACKENDS)
def test_operations_alone_have_the_bits_of_whole_programs(loaded: LoadedJob, name: str) -> None:
    if name == "torch":
        pytest.importorskip("torch", reason="the back end torch")
    program, executor = loaded.job.document.step, backend(Engine(name))
    inputs = step_inputs(loaded, slot_state(loaded, loaded.global_state, loaded.local_state), 0, 0)
    alone = OperationRunner(executor, loaded.job.document.seed).run(program, inputs, lambda _: None)
    whole = executor.compile(program, loaded.job.document.seed).run(inputs)
    assert {key: bits(value) for key, value in alone.items()} == {key: bits(value) for key, value in whole.items()}


def test_a_hash_covers_dtype_shape_and_bits() -> None:
    zeros = np.zeros(4, np.float32)
    others = (zeros.reshape(2, 2), np.zeros(4, np.int64), -zeros, np.ones(4, np.float32))
    assert len({value_hash(each) for each in (zeros, *others)}) == 5
    payload = np.array([0x7FC00001, 0x7FC00002], np.uint32).view(np.float32)
    assert value_hash(payload[:1]) == value_hash(payload[1:])


@pytest.mark.parametrize("kind", PlaceKind)
def test_a_recomputation_ends_in_the_root_of_the_trace(folder: Path, loaded: LoadedJob, kind: PlaceKind) -> None:
    honest = party(folder / "honest")
    record = make_record(honest, loaded, NUMPY, kind, ROUND, SLOT, SEGMENT)
    values = place_values(folder, loaded, kind)
    assert [seen.hash for seen in values] == list(record.hashes)
    native = make_record(honest, loaded, backend(Engine("native")), kind, ROUND, SLOT, SEGMENT)
    assert native == record


# --- a difference at each level ------------------------------------------------------------------


def test_equal_traces_have_no_difference(folder: Path, loaded: LoadedJob) -> None:
    honest = party(folder / "honest")
    assert narrow(honest, None, loaded, NUMPY) is None
    assert narrow(honest, honest, loaded, NUMPY) is None


def forged(honest: TraceParty, change: Callable[[list[ShareRecord], list[RoundEnd]], None]) -> TraceParty:
    shares, rounds = list(honest.trace.shares), list(honest.trace.rounds)
    change(shares, rounds)
    trace = Trace(honest.trace.job, tuple(rounds), tuple(shares))
    return TraceParty(name="theirs", trace=trace)


def changed_boundary(share: ShareRecord, index: int, **changes: Any) -> ShareRecord:
    boundaries = list(share.boundaries)
    one: Boundary = replace(boundaries[index], **changes)
    boundaries[index] = replace(one, root=boundary_root(one.global_root, one.local_root, one.metrics))
    return share_record(share.part, tuple(boundaries), share.update_root, share.local_out_root)


AT = ROUND * 2 + SLOT


def other_start(shares: list[ShareRecord], _: list[RoundEnd]) -> None:
    shares[AT] = changed_boundary(shares[AT], 0, global_root=bytes(32))


def other_state(shares: list[ShareRecord], _: list[RoundEnd]) -> None:
    shares[AT] = changed_boundary(shares[AT], SEGMENT + 1, global_root=bytes(32))


def other_metric(shares: list[ShareRecord], _: list[RoundEnd]) -> None:
    metrics = shares[AT].boundaries[SEGMENT + 1].metrics
    shares[AT] = changed_boundary(shares[AT], SEGMENT + 1, metrics=(metrics[0] ^ 1, *metrics[1:]))


def other_update(shares: list[ShareRecord], _: list[RoundEnd]) -> None:
    shares[AT] = replace(shares[AT], update_root=bytes(32))


def other_local(shares: list[ShareRecord], _: list[RoundEnd]) -> None:
    shares[AT] = replace(shares[AT], local_out_root=bytes(32))


def other_round(_: list[ShareRecord], rounds: list[RoundEnd]) -> None:
    rounds[ROUND] = RoundEnd(bytes(32))


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("change", "level", "kind", "words"),
    [
        (other_start, Level.START, "start", "round 1, slot 1, start: the share does not start from"),
        (other_state, Level.PLACE, "segment", "round 1, slot 1, segment 1"),
        (other_metric, Level.TENSOR, "segment", "round 1, slot 1, segment 1: the metric loss is"),
        (other_update, Level.PLACE, "update", "round 1, slot 1, update"),
        (other_local, Level.START, "update", "round 1, slot 1, update: the local state that the share leaves"),
        (other_round, Level.PLACE, "aggregation", "round 1, aggregation"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_forged_root_is_narrowed_to_its_place(
    folder: Path, loaded: LoadedJob, change: Any, level: str, kind: str, words: str, alone: bool
) -> None:
    honest = party(folder / "honest")
    theirs = forged(honest, change)
    found = narrow(theirs, None if alone else honest, loaded, NUMPY)
    assert found is not None
    difference = found.difference
    assert (difference.level, difference.kind) == (level, kind)
    assert words in difference.sentence
    assert difference.agrees == (() if alone else ("honest",))
    assert bool(difference.advice) == (level == Level.PLACE)


def test_kept_states_name_the_tensor(loaded: LoadedJob, lie: LyingRun) -> None:
    found = narrow(lie.party, None, loaded, NUMPY)
    assert found is not None
    assert found.difference.level == Level.TENSOR
    assert (found.difference.round, found.difference.slot, found.difference.segment) == (ROUND, SLOT, SEGMENT)
    name = found.difference.name
    assert f"tensor {name} is" in found.difference.sentence
    assert not np.array_equal(found.arrays["claimed"], found.arrays["result"])
    assert "assay trace record" in found.difference.advice


@pytest.mark.parametrize("against", ["recomputation", "trace", "trace with a record"])
def test_a_record_names_the_operation(
    folder: Path, loaded: LoadedJob, lie: LyingRun, tmp_path: Path, against: str
) -> None:
    theirs = lie.at(tmp_path / "theirs")
    record_of(theirs, loaded, lie.liar)
    honest = replace(party(folder / "honest"), records=tmp_path / "ours")
    if against == "trace with a record":
        record_of(honest, loaded, NUMPY)
    found = narrow(theirs, None if against == "recomputation" else honest, loaded, backend(Engine("native")))
    check_operation(found, lie.lied)
    assert found is not None
    assert found.difference.agrees == (() if against == "recomputation" else ("honest",))
    assert "step 7, node" in found.difference.sentence


def check_operation(found: Narrowed | None, lied: SeenValue) -> None:
    assert found is not None
    difference = found.difference
    assert lied.node is not None
    assert difference.level == Level.OPERATION
    assert (difference.step, difference.path, difference.operation) == (lied.spot.step, lied.spot.path, lied.node.op)
    assert difference.own == lied.hash != difference.first
    # The inputs show it: anyone can compute the one operation again.
    assert [value_hash(found.arrays[f"operand.{at}"]) for at in range(len(lied.operands))] == [
        value_hash(operand) for operand in lied.operands
    ]
    assert value_hash(found.arrays["result"]) == lied.hash
    assert len(difference.operands) == len(lied.operands)


@pytest.mark.parametrize("first", ["honest", "theirs"])
def test_the_recomputation_says_who_is_right(
    folder: Path, loaded: LoadedJob, lie: LyingRun, tmp_path: Path, first: str
) -> None:
    theirs = lie.at(tmp_path / "theirs")
    record_of(theirs, loaded, lie.liar)
    honest = replace(party(folder / "honest"), records=None)
    pair = (honest, theirs) if first == "honest" else (theirs, honest)
    found = narrow(*pair, loaded, NUMPY)
    assert found is not None
    assert found.difference.sentence.startswith(f"{pair[0].name} and {pair[1].name} part in round 1, slot 1, segment 1")
    assert found.difference.agrees == ("honest",)


def test_a_record_names_the_operation_of_an_aggregation(folder: Path, loaded: LoadedJob, tmp_path: Path) -> None:
    kind = PlaceKind.AGGREGATION
    operations = [seen for seen in place_values(folder, loaded, kind) if seen.node is not None]
    lied = operations[len(operations) // 2]
    made = lying_run(folder, tmp_path / "theirs", lied)
    theirs = made.at(tmp_path / "records")
    record_of(theirs, loaded, made.liar, kind)
    found = narrow(theirs, None, loaded, NUMPY)
    check_operation(found, lied)
    assert found is not None
    assert found.difference.kind == "aggregation"
    assert found.difference.step is None


@pytest.mark.parametrize(
    ("kind", "part"), [(PlaceKind.UPDATE, "update of "), (PlaceKind.SEGMENT, "mean of metric loss")]
)
def test_a_record_names_a_value_that_no_operation_gives(
    folder: Path, loaded: LoadedJob, tmp_path: Path, kind: PlaceKind, part: str
) -> None:
    """The author of this trace lies about the tensors of an update, or about the mean of a metric."""
    honest = party(folder / "honest")
    theirs = replace(
        forged(honest, other_update if kind is PlaceKind.UPDATE else other_metric), records=tmp_path / "records"
    )
    values = place_values(folder, loaded, kind)
    at = next(at for at, seen in enumerate(values) if seen.spot.name.startswith(part))
    hashes = [seen.hash for seen in values]
    hashes[at] = bytes(32)
    right = make_record(honest, loaded, NUMPY, kind, ROUND, SLOT, SEGMENT)
    share = theirs.trace.shares[AT]
    closing = share.update_root if kind is PlaceKind.UPDATE else share.boundaries[SEGMENT + 1].root
    path = tmp_path / "records" / record_name(kind, ROUND, SLOT, right.segment)
    write_record(replace(right, closing=closing, values=b"".join(hashes)), path)
    found = narrow(theirs, None, loaded, NUMPY)
    assert found is not None
    assert found.difference.level == Level.TENSOR
    assert found.difference.name == values[at].spot.name
    assert values[at].spot.name in found.difference.sentence


def test_a_record_whose_values_are_right_does_not_lead_to_another_root(
    folder: Path, loaded: LoadedJob, tmp_path: Path
) -> None:
    honest = party(folder / "honest")
    theirs = replace(forged(honest, other_state), records=tmp_path / "records")
    right = make_record(honest, loaded, NUMPY, PlaceKind.SEGMENT, ROUND, SLOT, SEGMENT)
    closing = theirs.trace.shares[AT].boundaries[SEGMENT + 1].root
    path = tmp_path / "records" / record_name(PlaceKind.SEGMENT, ROUND, SLOT, SEGMENT)
    write_record(replace(right, closing=closing), path)
    found = narrow(theirs, None, loaded, NUMPY)
    assert found is not None
    assert "agrees with the recomputation in every value, but its root does not" in found.difference.sentence


# --- records of others ---------------------------------------------------------------------------


def test_a_record_of_another_run_is_refused(folder: Path, loaded: LoadedJob, tmp_path: Path) -> None:
    honest = party(folder / "honest")
    theirs = replace(forged(honest, other_state), records=tmp_path / "records")
    right = make_record(honest, loaded, NUMPY, PlaceKind.SEGMENT, ROUND, SLOT, SEGMENT)
    path = tmp_path / "records" / record_name(PlaceKind.SEGMENT, ROUND, SLOT, SEGMENT)
    write_record(right, path)
    with pytest.raises(TraceError, match="is not a record of round 1, slot 1, segment 1 in theirs"):
        narrow(theirs, None, loaded, NUMPY)
    closing = theirs.trace.shares[AT].boundaries[SEGMENT + 1].root
    write_record(replace(right, closing=closing, values=right.values[:64]), path)
    with pytest.raises(TraceError, match="has 2 values"):
        narrow(theirs, None, loaded, NUMPY)


def records(right: PlaceRecord) -> Iterator[tuple[str, str]]:
    value = {"version": 1, **codec.to_plain(right)}
    yield "", "JSON"
    yield "[" * 1_000, "."
    yield "[]", "version"
    yield json.dumps({**value, "version": 2}), "version"
    yield json.dumps({**value, "kind": "all"}), "kind"
    yield json.dumps({**value, "values": value["values"][:-2]}), "values"
    yield json.dumps({**value, "values": "xy"}), "values"
    yield json.dumps({**value, "round": -1}), "round"
    yield json.dumps({**value, "more": 1}), "more"
    yield json.dumps({name: value[name] for name in value if name != "job"}), "job"


def test_bytes_that_are_no_record_are_refused(folder: Path, loaded: LoadedJob, tmp_path: Path) -> None:
    right = make_record(party(folder / "honest"), loaded, NUMPY, PlaceKind.UPDATE, 0, 0, 0)
    path = tmp_path / "record.json"
    write_record(right, path)
    assert read_record(path) == right
    for text, field in records(right):
        path.write_text(text)
        with pytest.raises(TraceError, match=field):
            read_record(path)
    with pytest.raises(TraceError, match="plain file"):
        read_record(Path("/dev/zero"))


def test_a_record_is_made_only_of_what_the_machine_computed(folder: Path, loaded: LoadedJob) -> None:
    theirs = forged(party(folder / "honest"), other_state)
    with pytest.raises(TraceError, match="this machine reaches the root"):
        make_record(theirs, loaded, NUMPY, PlaceKind.SEGMENT, ROUND, SLOT, SEGMENT)
    for place in ((2, 0, 0), (0, 2, 0), (0, 0, 2)):
        with pytest.raises(RangeError):
            make_record(theirs, loaded, NUMPY, PlaceKind.SEGMENT, *place)


def test_a_trace_that_was_wrong_before_is_compared_alone(folder: Path, loaded: LoadedJob) -> None:
    """Both traces agree on a segment that the recomputation does not reach, and then part."""
    honest = party(folder / "honest")
    one = forged(
        honest, lambda shares, _: shares.__setitem__(AT, changed_boundary(shares[AT], 1, global_root=bytes(32)))
    )

    def twice(shares: list[ShareRecord], rounds: list[RoundEnd]) -> None:
        shares[AT] = one.trace.shares[AT]
        other_state(shares, rounds)

    with pytest.raises(TraceError, match="verify this trace first"):
        narrow(one, forged(honest, twice), loaded, NUMPY)

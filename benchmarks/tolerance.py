"""Thresholds of hardware arithmetic: how often honest work is rejected, and how often false work is found.

Segments of small jobs run under hardware controls (``pol/replay/controls.py``). The distances of some of them are the
profile; its thresholds are those times a margin. The others show how many honest pairs are rejected, and some of them
are claimed by adversaries, against an honest checker. Each row has the part of them that is found with the default
margin, and columns with other margins.

``--device cuda`` measures a GPU. ``--folder`` keeps the built jobs, so that a machine that has only NumPy and torch can
use them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from types import MappingProxyType

import numpy as np

from benchmarks.figures import Figures, Row
from domain.amount import ceil_div
from host.devices.device import CPU
from host.devices.find import find_devices
from pol.executor.backend import backend, computing
from pol.executor.hardware import Hardware
from pol.executor.hardware_backend import hardware_backend
from pol.executor.interface import Backend
from pol.executor.names import DEFAULT_ENGINE
from pol.job.load import LoadedJob, load_document, load_job
from pol.replay.calibrate import Comparison, Measurement, measure, write_starts
from pol.replay.controlled import read_states
from pol.replay.controls import EXACT, find_controls
from pol.replay.distances import SegmentEnd, distances
from pol.replay.profile import ProfiledSegment
from pol.rules.tolerance import BF16, FP32, MARGIN, NEVER, PARTS, TF32, Distance, base_of, furthest
from pol.state.arrays import Array, State
from pol.work.records import RoundSlot
from pol.work.segments import SlotState, run_steps, slot_state

NAME = "tolerance"
SEGMENTS = 32
PROFILED = CLAIMED = 16
"""Numbers of segments that make the profile, and that adversaries claim, at most half of all."""
LONGER = 10
"""The jobs have this many times the steps of their examples, so that there are enough segments."""
MARGINS = (1, 2, 4, 8, 16, 32, 64, 256)
RATE = 1.01
_RATE = "-rate"
MODELS: Mapping[str, str] = MappingProxyType({"digits": "digits", "char-gpt": "char_gpt"})
"""The example files of the jobs."""
MAY_PASS = ("moved by half its threshold",)
"""The claims that a threshold cannot find, which shows its limit."""


@dataclass(frozen=True)
class HonestSegment:
    """A segment that an adversary claims: the states at its start, and the end that an honest checker computes.

    ``loaded`` is the job and ``faster`` the same job with a higher learning rate. ``measured`` has the largest
    distances of honest runs. ``number`` counts the segments.
    """

    loaded: LoadedJob
    faster: LoadedJob
    device: str
    place: ProfiledSegment
    start: SegmentEnd
    end: SegmentEnd
    measured: Mapping[str, Distance]
    number: int

    def run(self, engine: Backend, *, loaded: LoadedJob | None = None, segment: int | None = None) -> SegmentEnd:
        """Return the end of the segment on a back end; of another job or with the data of another segment if given."""
        job = loaded or self.loaded
        begun = slot_state(job, self.start.global_state, self.start.local_state)
        part = RoundSlot(self.place.round, self.place.slot)
        index = self.place.segment if segment is None else segment
        return _ended(job, *run_steps(job, part, index, begun, engine))

    @property
    def tensor(self) -> str:
        """A tensor of the global state that trains, another one in each segment."""
        names = [name for name in sorted(self.end.global_state) if _differ(self, name)]
        return names[self.number % len(names)]


Adversary = Callable[[HonestSegment], SegmentEnd]


def _differ(segment: HonestSegment, name: str) -> bool:
    start, end = segment.start.global_state[name], segment.end.global_state[name]
    return end.dtype == np.float32 and not np.array_equal(start, end)


def _ended(loaded: LoadedJob, state: SlotState, metrics: Sequence[int]) -> SegmentEnd:
    names = loaded.job.document.metrics
    return SegmentEnd(state.global_state, state.local_state, dict(zip(names, metrics, strict=True)))


def _with(segment: HonestSegment, name: str, tensor: Array) -> SegmentEnd:
    return replace(segment.end, global_state={**segment.end.global_state, name: tensor.astype(np.float32)})


def _between(start: State, end: State, part: float) -> State:
    """Return states on the way from the start to the end; 0 is the start, 1 the end. Integers are those of the end."""
    return {
        name: (start[name] + part * (end[name].astype(np.float64) - start[name])).astype(np.float32)
        if end[name].dtype == np.float32
        else end[name]
        for name in end
    }


def _tensor_moved(part: float, segment: HonestSegment) -> SegmentEnd:
    name = segment.tensor
    moved = _between(segment.start.global_state, segment.end.global_state, 1 + part)
    return _with(segment, name, moved[name])


def _element_moved(part: float, segment: HonestSegment) -> SegmentEnd:
    name = segment.tensor
    tensor = segment.end.global_state[name].copy()
    way = np.abs(tensor - segment.start.global_state[name]).max()
    tensor.reshape(-1)[segment.number % tensor.size] += np.float32(part * way)
    return _with(segment, name, tensor)


def _half_a_threshold(segment: HonestSegment) -> SegmentEnd:
    """Return the end with a tensor moved by half of what the default margin admits."""
    name = segment.tensor
    allowed = base_of(segment.measured[f"global.{name}"])
    part = MARGIN * min(allowed.mean, allowed.largest) / PARTS / 2
    return _tensor_moved(part, segment)


def _infinitesimal(segment: HonestSegment) -> SegmentEnd:
    start, end = segment.start, segment.end
    return replace(
        end,
        global_state=_between(start.global_state, end.global_state, 1e-3),
        local_state=_between(start.local_state, end.local_state, 1e-3),
    )


def _fewer_steps(segment: HonestSegment) -> SegmentEnd:
    """Return the state before the segment's last step, with the honest metrics."""
    before: list[SlotState] = []
    begun = slot_state(segment.loaded, segment.start.global_state, segment.start.local_state)
    part = RoundSlot(segment.place.round, segment.place.slot)
    engine = _engine(FP32, segment.device)
    run_steps(
        segment.loaded, part, segment.place.segment, begun, engine, lambda _step, _loss, state: before.append(state)
    )
    state = before[-2] if len(before) > 1 else begun
    return SegmentEnd(state.global_state, state.local_state, segment.end.metrics)


def _stored_in_bf16(segment: HonestSegment) -> SegmentEnd:
    """Return the end with its weights rounded to the 8 bits of BF16."""
    rounded = {}
    for name, tensor in segment.end.global_state.items():
        bits = np.ascontiguousarray(tensor).view(np.uint32) if tensor.dtype == np.float32 else None
        rounded[name] = tensor if bits is None else ((bits + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return replace(segment.end, global_state=rounded)


def _other_data(segment: HonestSegment) -> SegmentEnd:
    length = segment.loaded.job.document.share_segments
    other = (segment.place.segment + 1) % length
    return segment.run(_engine(FP32, segment.device), segment=other)


def _lower_precision(precision: str, segment: HonestSegment) -> SegmentEnd:
    return segment.run(_engine(precision, segment.device))


def _faster(segment: HonestSegment) -> SegmentEnd:
    return segment.run(_engine(FP32, segment.device), loaded=segment.faster)


def adversaries(device: str) -> Mapping[str, Adversary]:
    """Return the claims by name; GPUs also have TF32."""
    lower = (TF32, BF16) if device != CPU else (BF16,)
    return {
        "one tensor moved by 1 % of its update": partial(_tensor_moved, 0.01),
        "one tensor moved by 0.1 % of its update": partial(_tensor_moved, 0.001),
        "one tensor not trained": partial(_tensor_moved, -1.0),
        "one element moved by 1 % of the update": partial(_element_moved, 0.01),
        "learning rate 1 % higher": _faster,
        "one step fewer": _fewer_steps,
        "data of another segment": _other_data,
        **{f"products in {precision}": partial(_lower_precision, precision) for precision in lower},
        "weights stored in bf16": _stored_in_bf16,
        "infinitesimal update": _infinitesimal,
        f"one tensor {MAY_PASS[0]}": _half_a_threshold,
    }


_ENGINES: dict[tuple[str, str], Backend] = {}


def _engine(precision: str, device: str) -> Backend:
    if (precision, device) not in _ENGINES:
        _ENGINES[precision, device] = hardware_backend(Hardware(precision, device))
    return _ENGINES[precision, device]


def run(
    models: Sequence[str] = tuple(MODELS), segments: int = SEGMENTS, device: str = CPU, folder: Path | None = None
) -> Figures:
    """Measure some jobs. The benchmark fails if honest work is rejected with the default margin, or if a claim passes.

    ``segments`` are drawn from each job, at most half of them for the profile. ``folder`` keeps the built jobs.
    """
    rows: list[Row] = []
    notes = [f"{device}: {_described(device)}; exact arithmetic: {computing(DEFAULT_ENGINE)}"]
    with TemporaryDirectory(prefix="assay-tolerance-") if folder is None else nullcontext(folder) as name:
        for model in models:
            directory = Path(name) / model
            _build(model, directory)
            rows += _measured(model, directory, segments, device, notes)
    failed = False
    for row in rows:
        if row.unit == "rejected" and row.value:
            notes.append(f"{row.case}: honest work was rejected")
            failed = True
        if row.unit == "found" and row.value < 1 and not row.case.endswith(MAY_PASS):
            notes.append(f"{row.case}: not found in all segments")
    return Figures(NAME, rows, notes, failed=failed)


def _described(device: str) -> str:
    return next((each.model for each in find_devices() if each.name == device), device)


def _build(model: str, directory: Path) -> None:
    """Build the job and the same job with a higher learning rate, if they are not there."""
    if (directory / "job.json").exists():
        return
    from importlib import import_module

    from pol.capture.build import build

    example = import_module(f"examples.{MODELS[model]}").job()
    spec = replace(example, steps=LONGER * example.steps)
    rate = spec.schedule
    build(spec, directory, check=False)
    faster = replace(spec, schedule=lambda step: RATE * rate(step))
    build(faster, directory.with_name(directory.name + _RATE), check=False)


def _measured(model: str, directory: Path, segments: int, device: str, notes: list[str]) -> Iterator[Row]:
    on_cpu = device == CPU
    controls = find_controls(device=device, exact=on_cpu)
    document = load_document(directory).document
    # Only as many rounds are trained as have so many segments.
    rounds = min(document.rounds, ceil_div(segments, document.slots * document.share_segments))
    # A processor repeats its bits; sums of a GPU may have another order each time.
    runs = 1 if on_cpu else 2
    measurement = measure(directory, controls, segments=segments, rounds=rounds, runs=runs, random=Random(model))
    notes += [f"{model}: skipped {name}: {reason}" for name, reason in measurement.skipped]
    places = measurement.places
    count = max(1, min(PROFILED, len(places) // 2))
    profiling = {places[number * len(places) // count] for number in range(count)}
    others = [place for place in places if place not in profiling]
    others = [others[number * len(others) // count] for number in range(count)][:CLAIMED]
    inexact = [each for each in measurement.comparisons if EXACT not in (each.reference, each.other)]
    honest = _furthest(each for each in inexact if each.place in profiling)
    yield from _honest_rows(model, measurement, inexact, honest, profiling)
    loaded, faster = load_job(directory), load_job(directory.with_name(directory.name + _RATE))
    yield from _speed_rows(model, loaded, device, measurement)
    claimed = list(_claimed(loaded, faster, others, device, honest))
    for name, adversary in adversaries(device).items():
        needs = [_need(distances(each.start, each.end, adversary(each)), honest) for each in claimed]
        yield _row(f"{model}: {name}", needs, "found")


def _honest_rows(
    model: str,
    measurement: Measurement,
    inexact: Sequence[Comparison],
    honest: Mapping[str, Distance],
    profiling: set[ProfiledSegment],
) -> Iterator[Row]:
    """Yield the rejections of honest pairs that the profile has not seen, and the distances that it has."""
    fresh = [each for each in inexact if each.place not in profiling]
    differ = sum(any(distance.largest for distance in each.distances.values()) for each in fresh)
    needs = [_need(each.distances, honest) for each in fresh]
    yield _row(f"{model}: honest, {len(needs):,} pairs ({differ:,} differ)", needs, "rejected")
    exact = [each for each in measurement.comparisons if each.reference == EXACT]
    if exact:
        needs = [_need(each.distances, honest) for each in exact]
        yield _row(f"{model}: fp32 against exact arithmetic, {len(needs):,} pairs", needs, "differ")
    means = sorted(honest[name].mean / PARTS for name in honest)
    yield Row(f"{model}: mean distance, median tensor", median(means), "updates")
    yield Row(f"{model}: mean distance, widest tensor", means[-1], "updates")


def _speed_rows(model: str, loaded: LoadedJob, device: str, measurement: Measurement) -> Iterator[Row]:
    first = measurement.places[0]
    times = []
    for engine in (backend(DEFAULT_ENGINE), _engine(FP32, device)):
        state = slot_state(loaded, loaded.global_state, loaded.local_state)
        part = RoundSlot(first.round, first.slot)
        taken = []
        for _ in range(3):
            began = perf_counter()
            end, _metrics = run_steps(loaded, part, first.segment, state, engine)
            _ = end.global_state
            taken.append(1e3 * (perf_counter() - began) / measurement.segment_steps)
        times.append(min(taken))
    yield Row(f"{model}: step, exact on the processor", times[0], "ms")
    yield Row(case=f"{model}: step, fp32 on {device}", value=times[1], unit="ms", baseline=times[0])


def _claimed(
    loaded: LoadedJob,
    faster: LoadedJob,
    places: Sequence[ProfiledSegment],
    device: str,
    measured: Mapping[str, Distance],
) -> Iterator[HonestSegment]:
    engine, document = _engine(FP32, device), loaded.job.document
    with TemporaryDirectory(prefix="assay-starts-") as name:
        write_starts(loaded, places, engine, Path(name), lambda what, done, total: None)
        for number, place in enumerate(places):
            start = read_states(Path(name), str(number), document)
            begun = slot_state(loaded, start.global_state, start.local_state)
            part = RoundSlot(place.round, place.slot)
            end = _ended(loaded, *run_steps(loaded, part, place.segment, begun, engine))
            yield HonestSegment(
                loaded=loaded,
                faster=faster,
                device=device,
                place=place,
                start=start,
                end=end,
                measured=measured,
                number=number,
            )


def _furthest(comparisons: Iterator[Comparison]) -> dict[str, Distance]:
    every = list(comparisons)
    return {name: furthest(each.distances[name] for each in every) for name in every[0].distances}


def _need(found: Mapping[str, Distance], measured: Mapping[str, Distance]) -> float:
    """Return the least margin with which a claim passes; infinity if none lets it pass."""
    bases = {name: base_of(measured[name]) for name in found}
    pairs = [(found[name].largest, base.largest) for name, base in bases.items()]
    pairs += [(found[name].mean, base.mean) for name, base in bases.items()]
    return inf if any(distance == NEVER for distance, _ in pairs) else max(distance / base for distance, base in pairs)


def _row(case: str, needs: Sequence[float], unit: str) -> Row:
    """Return the part of claims that are outside, for each margin."""
    parts = {margin: sum(need > margin for need in needs) / len(needs) for margin in MARGINS}
    least = min(needs) if unit == "found" else max(needs)
    return Row(
        case=case,
        value=parts[MARGIN],
        unit=unit,
        columns={**{f"x{margin}": part for margin, part in parts.items()}, "passes at": min(least, 1e12)},
        details={"count": len(needs), "outside": sum(need > MARGIN for need in needs)},
    )

"""The time that a validator, an auditor and a provider take for one segment, compared with plain training of it.

Validator and auditor load the job once per process, open the two initial states (read, decode and hash them), and
replay the steps. A validator hashes the states at the end; an auditor hashes them after every step, and computes a
digest of all resulting bytes. Validator and auditor use one thread, and their runs alternate; rows have the median of
the CPU seconds and the range of the ratios.

A provider's share is one segment here. Its worker is a separate process, so its seconds are wall-clock time from the
request to the last message. The first share starts the process and loads the job; later shares reuse both. For each
share, three states are written to disk.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks.figures import Figures, Row
from benchmarks.networks import MODELS
from benchmarks.steps import STEPS, eager
from benchmarks.threads import limited
from compute_provider.interfaces import Honest
from compute_provider.work.trainer import SandboxedTrainer
from compute_provider.work.worker import ENDS, WorkOrder
from domain.keys import ShareKey
from domain.proof.reasons import ShareReason
from host.sandbox import usable_memory
from pol.capture.build import build
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import NATIVE, NUMPY, Engine
from pol.job.load import LoadedJob, load_job
from pol.replay.replay import replay_segment
from pol.state.canonical import encode_state
from pol.work.records import Boundary, RoundSlot
from pol.work.segments import slot_state
from validator.work import numerics
from validator.work.checks import exact
from validator.work.requests import (
    OpenedStates,
    OpeningCheck,
    SegmentAudit,
    SegmentCheck,
    StateFiles,
)

NAME = "replay"
EXECUTORS = (NATIVE, NUMPY)
TURNS = 5
PROVIDERS = 3
PART, INDEX = RoundSlot(0, 0), 0
SEED = bytes(32)

Task = Callable[[], object]
Said = SimpleQueue[dict[str, Any]]


@dataclass(frozen=True)
class ReplayCase:
    """A segment to replay: the job, the files of the opened states, and the boundaries at its start and end."""

    directory: Path
    loaded: LoadedJob
    states: tuple[Path, Path]
    start: Boundary
    end: Boundary


def run(models: Sequence[str] = tuple(MODELS)) -> Figures:
    """Measure some models, or all by default."""
    rows: list[Row] = []
    for name in models:
        with tempfile.TemporaryDirectory() as folder, limited(1):
            steps = STEPS[name]
            spec = replace(MODELS[name](steps), round_steps=steps)
            build(spec, Path(folder) / "job")
            place = opened(Path(folder))
            plain = partial(eager(spec, steps), 0)
            rows += measured(name, steps, {"eager": plain, **tasks(place)})
            rows += provided(name, place)
    return Figures(NAME, rows)


def opened(folder: Path) -> ReplayCase:
    """Write the initial states of a segment to files, compute its end, and return the segment."""
    loaded = load_job(folder / "job")
    start = slot_state(loaded, loaded.global_state, loaded.local_state)
    states = folder / "global", folder / "local"
    for path, state in zip(states, (start.global_state, start.local_state), strict=True):
        path.write_bytes(encode_state(state))
    replayed = replay_segment(loaded, PART, INDEX, loaded.global_state, loaded.local_state, backend(Engine(NATIVE)))
    return ReplayCase(
        directory=folder / "job",
        loaded=loaded,
        states=states,
        start=start.boundary(0, 0, ()),
        end=replayed.boundary,
    )


def tasks(place: ReplayCase) -> dict[str, Task]:
    """Return the tasks to measure, by name. A task raises RuntimeError if its result is not that of an honest share."""
    by_name: dict[str, Task] = {
        "loading": partial(load_job, place.directory),
        "opening": partial(_open, place),
    }
    for name in EXECUTORS:
        by_name[f"replaying, {name}"] = partial(_replay, place, backend(Engine(name)))
        by_name[f"validator, {name}"] = partial(_check, place, name)
        by_name[f"seat, {name}"] = partial(_answer, place, name)
    return by_name


def _opened(place: ReplayCase) -> OpenedStates:
    return OpenedStates(StateFiles(*place.states), (), place.start.root)


def _open(place: ReplayCase) -> None:
    if not numerics.opening_holds(OpeningCheck(place.directory, _opened(place))):
        raise RuntimeError("the opened states do not match the boundary")


def _replay(place: ReplayCase, executor: Backend) -> None:
    states = place.loaded.global_state, place.loaded.local_state
    if replay_segment(place.loaded, PART, INDEX, *states, executor).boundary != place.end:
        raise RuntimeError(f"{executor.name} ends with another state")


def _check(place: ReplayCase, executor: str) -> None:
    result = exact.check_segment(
        SegmentCheck(
            directory=place.directory,
            part=PART,
            index=INDEX,
            start=_opened(place),
            end_root=place.end.root,
            engine=Engine(executor),
        )
    )
    if result.reason != ShareReason.NONE:
        raise RuntimeError(f"{executor} finds {ShareReason(result.reason).name}")


def _answer(place: ReplayCase, executor: str) -> None:
    answer = exact.recompute_segment(
        SegmentAudit(
            directory=place.directory,
            part=PART,
            index=INDEX,
            start=_opened(place),
            seeds=(SEED,),
            engine=Engine(executor),
        )
    )
    if answer.root != place.end.root:
        raise RuntimeError(f"{executor} gives another answer")


def provided(model: str, place: ReplayCase) -> Iterator[Row]:
    """Measure a provider's shares; yield a row for the first share of a worker, and one for later shares."""
    times: dict[str, list[float]] = {"first share": [], "next share": []}
    for _ in range(PROVIDERS):
        with tempfile.TemporaryDirectory() as folder:
            messages: Said = SimpleQueue()
            trainer = SandboxedTrainer(partial(_hear, messages), Path(folder))
            try:
                for kind, round in (("first share", 0), ("next share", 1), ("next share", 2)):
                    times[kind].append(_share(trainer, messages, place, Path(folder), round))
            finally:
                trainer.close()
    for kind, seconds in times.items():
        case = f"{model}, provider, {NATIVE}, {kind} ({min(seconds):.2f} to {max(seconds):.2f} s)"
        yield Row(case, median(seconds), "s")


def _hear(messages: Said, _key: ShareKey, message: dict[str, Any]) -> None:
    messages.put(message)


def _share(trainer: SandboxedTrainer, messages: Said, place: ReplayCase, folder: Path, round: int) -> float:
    """Train a share with ``trainer``, and return the wall-clock seconds."""
    key = ShareKey(order_id=bytes(32), leg=1, round=round, slot=0, issue=0)
    own = folder / str(round)
    own.mkdir()
    global_in, local_in = map(str, place.states)
    order = WorkOrder(
        job=str(place.directory),
        folder=str(own),
        global_in=global_in,
        local_in=local_in,
        global_root=place.start.global_root,
        local_root=place.start.local_root,
        round=round,
        slot=0,
        engine=Engine(NATIVE, memory=usable_memory()),
        boundaries=(),
    )
    start = perf_counter()
    trainer.start(key, order, Honest().worker(key))
    message: dict[str, Any] = {}
    while not ENDS & message.keys():
        message = messages.get(timeout=600)
    if "done" not in message:
        raise RuntimeError(f"the share has no result: {message}")
    return perf_counter() - start


def measured(model: str, steps: int, work: Mapping[str, Task]) -> Iterator[Row]:
    """Yield a row for each task, relative to the first task, and one for an auditor's time for hashing."""
    for task in work.values():
        # The first run compiles, and loads the job; the process keeps both.
        task()
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(TURNS):
        for name, task in work.items():
            start = process_time()
            task()
            times[name].append(process_time() - start)
    plain = times.pop(next(iter(work)))
    yield Row(f"{model}, {steps} steps of eager FP32", median(plain), "s")
    for executor in EXECUTORS:
        parts = (times[name] for name in (f"seat, {executor}", f"replaying, {executor}", "opening"))
        times[f"seat, {executor}: hashing"] = [
            max(0.0, whole - replaying - opening) for whole, replaying, opening in zip(*parts, strict=True)
        ]
    for name, seconds in times.items():
        ratios = [ours / theirs for ours, theirs in zip(seconds, plain, strict=True)]
        case = f"{model}, {name} ({min(ratios):.2f} to {max(ratios):.2f})"
        yield Row(case=case, value=median(seconds), unit="s", baseline=median(plain))

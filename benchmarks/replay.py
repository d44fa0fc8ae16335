"""What a validator, a seat of a panel and a provider pay for one segment, beside plain training of the segment.

Both load the job, once in each process; open the two states at the beginning, which are read, decoded and hashed; and
replay the steps. A validator hashes the states at the end, a seat behind every step, and gives a digest of all bytes
that it came to. One thread; all take turns, rows have the median of their CPU seconds, and the range of the ratios.

A provider's share is one segment here. Its worker is a process, so its seconds are those of the clock, from the order
to the last word: the first share starts the process and loads the job, the next one finds both, and each has three
states written to disk.
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
from compute_provider.work.trainer import Trainer
from compute_provider.work.worker import ENDS, WorkOrder
from domain.keys import ShareKey
from domain.proof.reasons import ShareReason
from host.sandbox import usable_memory
from pol.capture.build import build
from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import NATIVE, NUMPY
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
    """A segment of a share as a validator finds it: the job, the files of the opened states, both boundaries."""

    directory: Path
    loaded: LoadedJob
    states: tuple[Path, Path]
    start: Boundary
    end: Boundary


def run(models: Sequence[str] = tuple(MODELS)) -> Figures:
    """Measure some models, or all."""
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
    """Write the states that a place begins with, and find out where it ends."""
    loaded = load_job(folder / "job")
    start = slot_state(loaded, loaded.global_state, loaded.local_state)
    states = folder / "global", folder / "local"
    for path, state in zip(states, (start.global_state, start.local_state), strict=True):
        path.write_bytes(encode_state(state))
    replayed = replay_segment(loaded, PART, INDEX, loaded.global_state, loaded.local_state, backend(NATIVE))
    return ReplayCase(
        directory=folder / "job",
        loaded=loaded,
        states=states,
        start=start.boundary(0, 0, ()),
        end=replayed.boundary,
    )


def tasks(place: ReplayCase) -> dict[str, Task]:
    """Return what is paid for, by name. Whatever is not the result of an honest share raises."""
    found: dict[str, Task] = {
        "loading": partial(load_job, place.directory),
        "opening": partial(_open, place),
    }
    for name in EXECUTORS:
        found[f"replaying, {name}"] = partial(_replay, place, backend(name))
        found[f"validator, {name}"] = partial(_check, place, name)
        found[f"seat, {name}"] = partial(_answer, place, name)
    return found


def _opened(place: ReplayCase) -> OpenedStates:
    return OpenedStates(StateFiles(*place.states), (), place.start.root)


def _open(place: ReplayCase) -> None:
    if not numerics.opening_holds(OpeningCheck(place.directory, _opened(place))):
        raise RuntimeError("the opening does not hold")


def _replay(place: ReplayCase, executor: Backend) -> None:
    states = place.loaded.global_state, place.loaded.local_state
    if replay_segment(place.loaded, PART, INDEX, *states, executor).boundary != place.end:
        raise RuntimeError(f"{executor.name} ends elsewhere")


def _check(place: ReplayCase, executor: str) -> None:
    found = exact.check_segment(
        SegmentCheck(
            directory=place.directory,
            part=PART,
            index=INDEX,
            start=_opened(place),
            end_root=place.end.root,
            backend=executor,
        )
    )
    if found.reason != ShareReason.NONE:
        raise RuntimeError(f"{executor} finds {ShareReason(found.reason).name}")


def _answer(place: ReplayCase, executor: str) -> None:
    found = exact.recompute_segment(
        SegmentAudit(
            directory=place.directory,
            part=PART,
            index=INDEX,
            start=_opened(place),
            seed=SEED,
            backend=executor,
        )
    )
    if found.root != place.end.root:
        raise RuntimeError(f"{executor} answers otherwise")


def provided(model: str, place: ReplayCase) -> Iterator[Row]:
    """Yield a row for the first share of an order and one for those that follow."""
    times: dict[str, list[float]] = {"first share": [], "next share": []}
    for _ in range(PROVIDERS):
        with tempfile.TemporaryDirectory() as folder:
            said: Said = SimpleQueue()
            trainer = Trainer(partial(_hear, said), Path(folder))
            try:
                for kind, round in (("first share", 0), ("next share", 1), ("next share", 2)):
                    times[kind].append(_share(trainer, said, place, Path(folder), round))
            finally:
                trainer.close()
    for kind, found in times.items():
        case = f"{model}, provider, {NATIVE}, {kind} ({min(found):.2f} to {max(found):.2f} s)"
        yield Row(case, median(found), "s")


def _hear(said: Said, _key: ShareKey, message: dict[str, Any]) -> None:
    said.put(message)


def _share(trainer: Trainer, said: Said, place: ReplayCase, folder: Path, round: int) -> float:
    """Return the seconds of the clock that a share takes."""
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
        backend=NATIVE,
        memory_bytes=usable_memory(),
        boundaries=(),
    )
    start = perf_counter()
    trainer.start(key, order, Honest().worker(key))
    message: dict[str, Any] = {}
    while not ENDS & message.keys():
        message = said.get(timeout=600)
    if "done" not in message:
        raise RuntimeError(f"the share has no result: {message}")
    return perf_counter() - start


def measured(model: str, steps: int, work: Mapping[str, Task]) -> Iterator[Row]:
    """Yield a row for each task, relative to the first one, and what of a seat's time is hashing."""
    for task in work.values():
        # compiles, and loads the job that a process keeps
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
    for name, found in times.items():
        ratios = [ours / theirs for ours, theirs in zip(found, plain, strict=True)]
        case = f"{model}, {name} ({min(ratios):.2f} to {max(ratios):.2f})"
        yield Row(case=case, value=median(found), unit="s", baseline=median(plain))

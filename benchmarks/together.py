"""GPT-2 on several machines of one owner, each a process with a hard limit of memory that is too small for the model.

One process trains some segments of one step, and recomputes the second one as a seat of a panel does: the baselines,
without a limit. Then one group of machines trains the same segments. Two further groups replay the second segment as
its validator does, and as a seat does. All roots and answers have to be equal.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

from benchmarks.figures import Figures, Row
from benchmarks.memory import memory, reset_peak
from pol.errors import StateError
from pol.executor.backend import backend
from pol.executor.names import NATIVE, Engine
from pol.executor.native_backend import cores
from pol.job.load import load_job
from pol.job.paths import GLOBAL_STATE, LOCAL_STATE
from pol.machines.form import GroupSpec
from pol.machines.group import Group
from pol.machines.parts import forms_of, plan_of
from pol.machines.pool import GroupPool, OneGroup
from pol.split.costs import cost_of
from pol.split.machine import Machine
from pol.state.canonical import state_pieces
from pol.work.executor import OutOfMemory
from pol.work.records import Boundary, RoundSlot
from pol.work.segments import run_segment, slot_state
from validator.work.checks import exact
from validator.work.requests import OpenedStates, SegmentAudit, SegmentCheck, StateFiles
from validator.work.together import Together, Watch

LIMIT = 4_500_000_000
"""Memory of each machine in bytes."""
SEGMENTS = 3
REPLAYED = 1
"""Number of the segment that is replayed."""
_PART = RoundSlot(0, 0)
_MACHINE = Machine(speed=10**10, memory=LIMIT, bandwidth=125_000_000)
_SEED = bytes(32)
_TRAIN, _REPLAY, _SEAT = "train", "replay", "recompute as a seat"


@dataclass(frozen=True)
class _Alone:
    """The findings of one process: the roots of all boundaries, the answer of a seat, and the cost of both."""

    roots: list[str]
    metrics: list[int]
    answer: list[str]
    seconds: list[float]
    peaks: list[float]

    @property
    def start(self) -> bytes:
        """The root before the replayed segment."""
        return bytes.fromhex(self.roots[REPLAYED - 1])

    @property
    def end(self) -> bytes:
        """The root after the replayed segment."""
        return bytes.fromhex(self.roots[REPLAYED])


def figures_of(name: str, job: Path, machines: int) -> Figures:
    """Run the segments in one process and on the machines."""
    with tempfile.TemporaryDirectory() as folder:
        states = StateFiles(Path(folder) / "global", Path(folder) / "local")
        alone = _alone(job, Path(folder))
        rows = [
            Row(f"{case}, one process", alone.seconds[number], "s", columns={"peak GB": alone.peaks[number] / 1e9})
            for number, case in enumerate((f"{_TRAIN} {SEGMENTS} segments", _SEAT))
        ]
        notes = []
        opened = OpenedStates(states, tuple(alone.metrics), alone.start)
        engine = Engine(NATIVE, threads=max(1, cores() // machines))
        spec = GroupSpec(machines=machines, machine=_MACHINE, memory=LIMIT, engine=engine, shape=(machines, 1))
        audit = SegmentAudit(directory=job, part=_PART, index=REPLAYED, start=opened, seeds=(_SEED,), engine=engine)
        check = SegmentCheck(directory=job, part=_PART, index=REPLAYED, start=opened, end_root=alone.end, engine=engine)

        def train(watch: Watch) -> object:
            return _trained(job, spec, Path(folder) / "group", watch)

        def group(watch: Watch) -> AbstractContextManager[Together]:
            return _group(spec, Path(folder), watch)

        def replay(watch: Watch) -> object:
            with group(watch) as together:
                return together.check_segment(check, inf, Event()).root.hex()

        def sit(watch: Watch) -> object:
            with group(watch) as together:
                answer = together.recompute_segment(audit, inf, Event())
            return [answer.root.hex(), answer.digest.hex()]

        works: tuple[tuple[str, Callable[[Watch], object], object, float], ...] = (
            (f"{_TRAIN} {SEGMENTS} segments", train, alone.roots, alone.seconds[0]),
            (_REPLAY, replay, alone.end.hex(), alone.seconds[0] / SEGMENTS),
            (_SEAT, sit, alone.answer, alone.seconds[1]),
        )
        for case, work, expected, baseline in works:
            print(f"{name}: {case} on {machines} machines", file=sys.stderr, flush=True)
            columns: dict[str, float | None] = {}
            start = perf_counter()
            try:
                found = work(lambda group, columns=columns: columns.update(_seen(job, group)))  # type: ignore[misc]
            except (OutOfMemory, StateError) as error:
                notes.append(f"{case}: {error}")
                continue
            seconds = perf_counter() - start
            rows.append(Row(f"{case}, {machines} machines", seconds, "s", baseline=baseline, columns=columns))
            if found != expected:
                notes.append(f"{case} ends with another result than one process")
    return Figures(name, rows, notes, failed=bool(notes))


@contextmanager
def _group(spec: GroupSpec, folder: Path, watch: Watch) -> Iterator[Together]:
    """Yield a group that reads files in ``folder``; this process reads the job."""

    def ask(function: Callable[..., Any], *args: Any, timeout: float) -> Any:
        del timeout
        return function(*args)

    pool = GroupPool(OneGroup(spec), ask, folder / "groups", folder / "scratch", (folder,))
    try:
        yield Together(pool, watch)
    finally:
        pool.close()


def _seen(job: Path, group: Group) -> dict[str, float | None]:
    """Return what the processes of a group have needed, and the memory that the plan names."""
    plan = plan_of(load_job(job, with_states=False).job.document, group.spec)
    peak = max(memory("VmHWM", process) for process in group.members.pids.values())
    said = max(machine.memory for machine in cost_of(plan).machines)
    return {
        "peak GB": peak / 1e9,
        "plan GB": said / 1e9,
        "sent MB": group.sent / 1e6,
        "messages": float(group.messages),
    }


def _trained(job: Path, spec: GroupSpec, folder: Path, watch: Watch) -> list[str]:
    """Train all segments in one group, and return the roots of their boundaries."""
    loaded = load_job(job, with_states=False)
    document = loaded.job.document
    with Group(job, forms_of(loaded.job), folder, spec) as group:
        group.open(job / GLOBAL_STATE, job / LOCAL_STATE, (document.global_root, document.local_root))
        roots = [group.run_segment(_PART, index).root.hex() for index in range(SEGMENTS)]
        watch(group)
    return roots


def _alone(job: Path, folder: Path) -> _Alone:
    command = [sys.executable, "-m", "benchmarks.together", str(job), str(folder)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], check=True, stdout=subprocess.PIPE, text=True)
    return _Alone(**json.loads(done.stdout.splitlines()[-1]))


def main(job: Path, folder: Path) -> None:
    """Train and recompute in this process, and print what :class:`_Alone` holds. The states before the replayed segment
    are written into ``folder``.
    """
    start = perf_counter()
    boundaries = _train_here(job, folder)
    seconds, peaks = [perf_counter() - start], [memory("VmHWM")]
    reset_peak()
    before = boundaries[REPLAYED - 1]
    opened = OpenedStates(StateFiles(folder / "global", folder / "local"), before.metrics, before.root)
    start = perf_counter()
    audit = SegmentAudit(directory=job, part=_PART, index=REPLAYED, start=opened, seeds=(_SEED,), engine=Engine(NATIVE))
    answer = exact.recompute_segment(audit)
    found = _Alone(
        roots=[boundary.root.hex() for boundary in boundaries],
        metrics=list(before.metrics),
        answer=[answer.root.hex(), answer.digest.hex()],
        seconds=[*seconds, perf_counter() - start],
        peaks=[*peaks, memory("VmHWM")],
    )
    print(json.dumps(vars(found)))


def _train_here(job: Path, folder: Path) -> list[Boundary]:
    loaded, engine = load_job(job), backend(Engine(NATIVE))
    state = slot_state(loaded, loaded.global_state, loaded.local_state)
    loaded = loaded.without_initial()
    boundaries: list[Boundary] = []
    for index in range(SEGMENTS):
        if index == REPLAYED:
            for name, part in (("global", state.global_state), ("local", state.local_state)):
                with (folder / name).open("xb") as file:
                    file.writelines(state_pieces(part))
        state, boundary = run_segment(loaded, _PART, index, state, engine, donate=True)
        boundaries.append(boundary)
    return boundaries


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

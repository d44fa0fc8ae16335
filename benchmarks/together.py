"""GPT-2 on several machines of one owner, each a process with a hard limit of memory that is too small for the model.

One process trains a segment of one step, as a baseline without a limit. The machines train the same segment and replay
it, each time as a new group. All roots have to be equal.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks.figures import Figures, Row
from benchmarks.memory import memory
from host.files import link_whole
from pol.errors import StateError
from pol.executor.backend import backend
from pol.executor.names import NATIVE, Engine
from pol.executor.native_backend import cores
from pol.job.document import GLOBAL_STATE, LOCAL_STATE
from pol.job.load import load_job
from pol.machines.group import Group, GroupSpec
from pol.split.plan import Machine
from pol.work.executor import OutOfMemory
from pol.work.records import RoundSlot
from pol.work.segments import run_segment, slot_state

LIMIT = 4_500_000_000
"""Memory of each machine in bytes."""
_PART = RoundSlot(0, 0)
_MACHINE = Machine(speed=10**10, memory=LIMIT, bandwidth=125_000_000)


def figures_of(name: str, job: Path, machines: int) -> Figures:
    """Run the segment in one process and on the machines."""
    alone, seconds, peak = _alone(job)
    rows = [Row("one process", seconds, "s", columns={"peak GB": peak / 1e9})]
    notes = []
    for case in ("train", "replay"):
        print(f"{name}: {case} on {machines} machines", file=sys.stderr, flush=True)
        try:
            root, row = _together(job, machines, case, seconds)
        except (OutOfMemory, StateError) as error:
            notes.append(f"{case}: {error}")
            continue
        rows.append(row)
        if root != alone:
            notes.append(f"{case} ends with another root than one process")
    return Figures(name, rows, notes, failed=bool(notes))


def _alone(job: Path) -> tuple[str, float, float]:
    command = [sys.executable, "-m", "benchmarks.together", str(job)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], check=True, stdout=subprocess.PIPE, text=True)
    root, seconds, peak = json.loads(done.stdout.splitlines()[-1])
    return root, seconds, peak


def _together(job: Path, machines: int, case: str, alone: float) -> tuple[str, Row]:
    document = load_job(job, with_states=False).job
    spec = GroupSpec(
        machines=machines,
        machine=_MACHINE,
        memory=LIMIT,
        engine=Engine(NATIVE, threads=max(1, cores() // machines)),
        shape=(machines, 1),
    )
    with tempfile.TemporaryDirectory() as name, Group(job, document, Path(name) / "files", spec) as group:
        paths = Path(name) / "files" / "global", Path(name) / "files" / "local"
        for path, source in zip(paths, (GLOBAL_STATE, LOCAL_STATE), strict=True):
            link_whole(job / source, path)
        group.open(*paths, (document.document.global_root, document.document.local_root))
        start = perf_counter()
        boundary = group.run_segment(_PART, 0)
        seconds = perf_counter() - start
        peak = max(memory("VmHWM", process) for process in group.members.pids.values())
        columns = {"peak GB": peak / 1e9, "sent MB": group.sent / 1e6, "messages": float(group.messages)}
        return boundary.root.hex(), Row(
            case=f"{case} on {machines}", value=seconds, unit="s", baseline=alone, columns=columns
        )


def main(job: Path) -> None:
    """Run the segment in this process. Print its root, the seconds, and the peak memory in bytes."""
    loaded, engine = load_job(job), backend(Engine(NATIVE))
    state = slot_state(loaded, loaded.global_state, loaded.local_state)
    loaded = loaded.without_initial()
    start = perf_counter()
    _, boundary = run_segment(loaded, _PART, 0, state, engine, donate=True)
    print(json.dumps([boundary.root.hex(), perf_counter() - start, memory("VmHWM")]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The process of a hardware control: ``python -m pol.replay.controlled JOB STARTS TO TASK``.

TASK is a JSON object with the arithmetic, the segments, and the number of runs. The process reads the states at the
start of each segment from STARTS, and writes the ends into TO. It writes a line to its output after each run.
"""

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from domain.errors import Expected
from domain.limits import EXECUTOR_VERSION
from host.devices.device import CPU
from host.devices.find import find_devices
from host.files import write_whole
from pol.executor.backend import backend, computing
from pol.executor.hardware import Hardware
from pol.executor.hardware_backend import hardware_backend
from pol.executor.interface import Backend
from pol.executor.names import DEFAULT_ENGINE
from pol.job.document import JobDocument
from pol.job.load import LoadedJob, load_job
from pol.replay.distances import SegmentEnd
from pol.state.canonical import read_state, state_pieces
from pol.work.records import RoundSlot
from pol.work.segments import SlotState, run_steps, slot_state

REPORT: Final = "report.json"


def write_states(folder: Path, name: str, states: SlotState, metrics: Sequence[int] = ()) -> None:
    """Write both states at a place of a segment, and the metrics there, into a folder."""
    write_whole(folder / f"{name}.global", state_pieces(states.global_state))
    write_whole(folder / f"{name}.local", state_pieces(states.local_state))
    write_whole(folder / f"{name}.json", json.dumps(list(metrics)))


def read_states(folder: Path, name: str, document: JobDocument) -> SegmentEnd:
    """Return what :func:`write_states` wrote."""
    metrics = json.loads((folder / f"{name}.json").read_text())
    return SegmentEnd(
        global_state=read_state(folder / f"{name}.global", document.global_tensors),
        local_state=read_state(folder / f"{name}.local", document.local_tensors),
        metrics=dict(zip(document.metrics, metrics, strict=False)),
    )


def _run(directory: Path, starts: Path, to: Path, task: Mapping[str, Any]) -> None:
    hardware = None if task["hardware"] is None else Hardware(**task["hardware"])
    engine = backend(DEFAULT_ENGINE) if hardware is None else hardware_backend(hardware)
    loaded = load_job(directory)
    for number, (round, slot, segment) in enumerate(task["segments"]):
        for run in range(task["runs"]):
            end, metrics = _end(loaded, starts, number, RoundSlot(round, slot), segment, engine)
            write_states(to, f"{number}-{run}", end, metrics)
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
    device = CPU if hardware is None else hardware.device
    models = {each.name: each.model for each in find_devices()}
    code = computing(DEFAULT_ENGINE) if hardware is None else f"torch {version('torch')}"
    versions = f"{code}, executor {EXECUTOR_VERSION}, {platform.system()}"
    machine = models.get(device, device)
    write_whole(to / REPORT, json.dumps({"machine": machine, "versions": versions}))


def _end(
    loaded: LoadedJob, starts: Path, number: int, part: RoundSlot, segment: int, engine: Backend
) -> tuple[SlotState, tuple[int, ...]]:
    start = read_states(starts, str(number), loaded.job.document)
    state = slot_state(loaded, start.global_state, start.local_state)
    return run_steps(loaded, part, segment, state, engine, donate=True)


if __name__ == "__main__":
    try:
        _run(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4]))
    except Expected as error:
        sys.exit(str(error))

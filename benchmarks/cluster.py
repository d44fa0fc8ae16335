"""The time to replay all segments of one share on an owner's machines, all at once.

The machines are nodes of a Ray cluster on this machine, with one processor each. So there can be a gain only up to the
number of its cores. The baseline is one sandboxed process without a cluster. All processes have loaded the job before
the measurement begins.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any, Final

from benchmarks.figures import Figures, Row
from benchmarks.networks import MODELS
from domain.proof.reasons import ShareReason
from localnet.machines import Machines
from pol.capture.build import build
from pol.executor.backend import backend
from pol.executor.names import NATIVE, Engine
from pol.job.load import LoadedJob, load_job
from pol.state.canonical import encode_state
from pol.work.cluster.dispatch import NodeReport
from pol.work.executor import Executor
from pol.work.records import Boundary, RoundSlot
from pol.work.replayer import Lane, start_replayer
from pol.work.train import train_share
from validator.work.checks import exact
from validator.work.requests import OpenedStates, SegmentCheck, StateFiles

NAME = "cluster"
SEGMENTS, STEPS = 8, 4
"""Segments of the share, and steps of each."""
NODES = (1, 2)
_CASES = {0: "one process", 1: "one node", 2: "two nodes"}
TURNS = 2
ENGINE: Final = Engine(NATIVE, threads=1)
PART = RoundSlot(0, 0)
_MODEL = "gpt-128"
_START_SECONDS = 120.0
_TASK_SECONDS = 600.0
_LANE = "replay"


def run() -> Figures:
    """Measure one process, then clusters of one and two nodes."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = replace(MODELS[_MODEL](STEPS), round_steps=SEGMENTS * STEPS, segment_steps=STEPS)
        build(spec, folder / "job")
        checks = _trained(load_job(folder / "job"), folder)
        alone = 0.0
        for nodes in (0, *NODES):
            with _executor(nodes, folder) as executor:
                _replay(executor, checks)
                seconds = min(_replay(executor, checks) for _ in range(TURNS))
            alone = alone or seconds
            case = f"{SEGMENTS} segments of a share, {_CASES[nodes]}"
            rows.append(Row(case=case, value=seconds, unit="s", baseline=alone if nodes else None))
    return Figures(NAME, rows, [f"{os.cpu_count()} cores; model {_MODEL}, {STEPS} steps per segment, engine {NATIVE}"])


def _trained(loaded: LoadedJob, folder: Path) -> Sequence[SegmentCheck]:
    """Train a share, keep all its states, and return the check of each segment."""
    roots: list[Boundary] = []

    def keep(boundary: Boundary, *states: Any) -> None:
        roots.append(boundary)
        for state, kind in zip(states, ("global", "local"), strict=True):
            (folder / f"{boundary.index}.{kind}").write_bytes(encode_state(state))

    states = loaded.global_state, loaded.local_state
    train_share(loaded, PART, *states, backend=backend(ENGINE), on_boundary=keep)
    return [
        SegmentCheck(
            directory=folder / "job",
            part=PART,
            index=index,
            start=OpenedStates(
                StateFiles(folder / f"{index}.global", folder / f"{index}.local"), before.metrics, before.root
            ),
            end_root=after.root,
            engine=ENGINE,
        )
        for index, (before, after) in enumerate(pairwise(roots))
    ]


def _replay(executor: Executor, checks: Sequence[SegmentCheck]) -> float:
    """Replay all segments at once; return the seconds. RuntimeError if one has another result."""
    began = perf_counter()
    futures: list[Future[Any]] = [executor.submit(exact.check_segment, each, timeout=_TASK_SECONDS) for each in checks]
    for future in futures:
        if future.result().reason != ShareReason.NONE:
            raise RuntimeError("a segment has another result")
    return perf_counter() - began


@contextmanager
def _executor(nodes: int, folder: Path) -> Iterator[Executor]:
    """Yield one process, or a cluster with so many nodes."""
    seen: dict[str, NodeReport] = {}
    own = folder / f"own{nodes}"
    own.mkdir()
    lane = Lane(name=_LANE, processes=1, folder=own / "files", reads=(folder,))
    if not nodes:
        replayer = start_replayer("local", ENGINE, (lane,), own / "driver")
        try:
            yield replayer.lanes[_LANE]
        finally:
            replayer.close()
        return
    machines = Machines(own, nodes)
    before: Mapping[str, str] = dict(os.environ)
    try:
        machines.start()
        os.environ.update(machines.environment)
        replayer = start_replayer(
            machines.executor, ENGINE, (lane,), own / "driver", lambda found: seen.update({n.name: n for n in found})
        )
        try:
            ends = monotonic() + _START_SECONDS
            while sum(not node.problem for node in seen.values()) < nodes:
                if monotonic() > ends:
                    raise RuntimeError("the nodes did not start")
                sleep(0.1)
            yield replayer.lanes[_LANE]
        finally:
            replayer.close()
    finally:
        machines.stop()
        os.environ.clear()
        os.environ.update(before)

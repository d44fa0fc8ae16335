"""The time to replay all segments of one share on an owner's machines, all at once, and to aggregate a round in parts.

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

import numpy as np

from benchmarks.figures import Figures, Row
from benchmarks.networks import MODELS
from domain.proof.reasons import ShareReason
from localnet.machines import Machines
from pol.capture.build import build
from pol.executor.backend import backend
from pol.executor.names import NATIVE, Engine
from pol.job.load import LoadedJob, load_job
from pol.job.program import ProgramBuilder
from pol.job.updates import DIFFERENCE
from pol.job.write import JobSource, write_job
from pol.state.arrays import Array
from pol.state.canonical import encode_state
from pol.work.cluster.dispatch import NodeReport
from pol.work.executor import Executor
from pol.work.records import Boundary, RoundSlot
from pol.work.replayer import ExecutorReplayer, Lane, start_replayer
from pol.work.train import train_share
from validator.work.checks import exact
from validator.work.files import places_in
from validator.work.numerics import aggregate_round
from validator.work.requests import OpenedStates, RoundAggregation, SegmentCheck, StateFiles

NAME = "cluster"
SEGMENTS, STEPS = 8, 4
"""Segments of the share, and steps of each."""
CASES = {"one process": (0, 1), "two processes": (0, 2), "one node": (1, 1), "two nodes": (2, 1)}
"""The number of nodes of each case, and of the processes of each; without a node, they are this machine's."""
TURNS = 2
ENGINE: Final = Engine(NATIVE, threads=1)
PART = RoundSlot(0, 0)
_MODEL = "gpt-128"
TENSORS, ELEMENTS = 16, 1 << 20
"""Tensors of the job whose round is aggregated, and FP32 elements of each."""
_START_SECONDS = 120.0
_TASK_SECONDS = 600.0
_LANE = "replay"


def run() -> Figures:
    """Measure one process and two, then clusters of one and two nodes."""
    segments: list[Row] = []
    aggregations: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = replace(MODELS[_MODEL](STEPS), round_steps=SEGMENTS * STEPS, segment_steps=STEPS)
        build(spec, folder / "job")
        checks = _trained(load_job(folder / "job"), folder)
        states = _large_round(folder)
        for case, (nodes, processes) in CASES.items():
            own, parts = folder / case, max(nodes, processes)
            with _executor(nodes, processes, own, folder) as executor:
                _replay(executor, checks)
                seconds = min(_replay(executor, checks) for _ in range(TURNS))
                segments.append(_row(f"{SEGMENTS} segments of a share, {case}", seconds, segments))
                _aggregate(executor, own / "files", states, parts)
                seconds = min(_aggregate(executor, own / "files", states, parts) for _ in range(TURNS))
                what = f"aggregation of {len(states) - 1} updates of {TENSORS * 4 * ELEMENTS >> 20} MiB"
                aggregations.append(_row(f"{what}, {case}", seconds, aggregations))
    notes = [f"{os.cpu_count()} cores; model {_MODEL}, {STEPS} steps per segment, engine {NATIVE}"]
    return Figures(NAME, [*segments, *aggregations], notes)


def _row(case: str, seconds: float, before: Sequence[Row]) -> Row:
    return Row(case=case, value=seconds, unit="s", baseline=before[0].value if before else None)


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


def _large_round(folder: Path) -> Sequence[Path]:
    """Write a job whose updates Nesterov's rule aggregates. Return the files of its global state and of two updates."""
    step, outer, score = ProgramBuilder(), ProgramBuilder(), ProgramBuilder()
    shape = (ELEMENTS,)
    names = [f"w{number}" for number in range(TENSORS)]
    for name in names:
        before = step.input(f"global.{name}", "f32", shape)
        step.output(f"global.{name}", step.node("mul", before, _number(step, 0.5)))
        weights, update = outer.input(f"global.{name}", "f32", shape), outer.input(f"aggregate.{name}", "f32", shape)
        momentum = outer.node("mul", outer.input(f"global.{name}.m", "f32", shape), _number(outer, 0.9))
        momentum = outer.node("add", momentum, update)
        moved = outer.node("add", update, outer.node("mul", momentum, _number(outer, 0.9)))
        outer.output(f"global.{name}", outer.node("sub", weights, outer.node("mul", moved, _number(outer, 0.7))))
        outer.output(f"global.{name}.m", momentum)
    step.output("metric.loss", _number(step, 0.0))
    score.output("metric.sum", score.node("sum", score.input("global.w0", "f32", shape), dims=[0], keepdim=False))
    generator = np.random.default_rng(5)
    state: dict[str, Array] = {name: generator.standard_normal(shape).astype(np.float32) for name in names}
    state |= {f"{name}.m": np.zeros(shape, np.float32) for name in names}
    source = JobSource(
        name="large",
        seed=1,
        rounds=1,
        slots=2,
        round_steps=1,
        batch=1,
        segment_steps=1,
        aggregation=DIFFERENCE,
        step=step.build(),
        outer=outer.build(),
        eval=score.build(),
        metrics=("loss",),
        global_state=state,
        local_state={},
        data={"x": np.zeros((4, 1), np.float32)},
        holdout={"x": np.zeros((4, 1), np.float32)},
    )
    write_job(folder / "large", source)
    updates = [folder / f"update{slot}" for slot in range(source.slots)]
    for path in updates:
        path.write_bytes(encode_state({name: generator.standard_normal(shape).astype(np.float32) for name in names}))
    return [folder / "large" / "global.state", *updates]


def _number(program: ProgramBuilder, value: float) -> int:
    return program.constant("f32", (), np.array(value, "<f4").tobytes())


def _aggregate(executor: Executor, scratch: Path, states: Sequence[Path], parts: int) -> float:
    """Aggregate a round in parts, and return the seconds. RuntimeError if there is no next state."""
    opening, *updates = states
    with places_in(scratch, parts) as places:
        asked = [
            RoundAggregation(
                part=part,
                parts=parts,
                directory=opening.parent,
                opening=opening,
                updates=tuple(updates),
                engine=ENGINE,
                to=place,
            )
            for part, place in enumerate(places)
        ]
        began = perf_counter()
        made = ExecutorReplayer({_LANE: executor}).recompute_all(_LANE, aggregate_round, asked, _TASK_SECONDS)
        if None in made:
            raise RuntimeError("the round has no next state")
        return perf_counter() - began


@contextmanager
def _executor(nodes: int, processes: int, own: Path, reads: Path) -> Iterator[Executor]:
    """Yield so many processes, here or on each node of a cluster, which write into the folder ``own``."""
    seen: dict[str, NodeReport] = {}
    own.mkdir()
    lane = Lane(name=_LANE, processes=processes, folder=own / "files", reads=(reads,))
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

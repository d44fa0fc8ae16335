"""A job with gigabytes of data for the benchmark of transfers, with its training and its replay.

A provider's worker and a process of a validator's pool first process a job with little data, so that their later
growth is due to the data.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import file_digest
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.memory import memory
from compute_provider.interfaces import Honest
from compute_provider.work.trainer import SandboxedTrainer
from compute_provider.work.worker import ENDS, WorkOrder
from domain.keys import ShareKey
from domain.proof.reasons import ShareReason
from host.sandbox import usable_memory
from link import types as t
from pol.executor.names import NUMPY, Engine
from pol.job.document import parse_job
from pol.job.paths import DOCUMENT, GLOBAL_STATE, LOCAL_STATE
from pol.job.program import ProgramBuilder
from pol.job.updates import CLOSING
from pol.job.write import JobSource, write_job
from pol.rules.commitment import boundary_root
from pol.work.pool import ReplayPool
from pol.work.records import RoundSlot
from validator.work.checks import exact
from validator.work.requests import OpenedStates, SegmentCheck, StateFiles

LARGE, SMALL = "job", "small"
_ROW = 2**14
"""FP32 numbers per row; rows are small, so that the rows that are read take little memory."""
_BATCH, _STEPS = 4, 4
_KEY = ShareKey(order_id=bytes(32), leg=1, round=0, slot=0, issue=0)


def write_jobs(folder: Path, size: int) -> int:
    """Write a job with about ``size`` bytes of data, and a job with a single batch; return the bytes of the payload."""
    for name, rows in ((LARGE, max(_BATCH, size // 4 // _ROW)), (SMALL, _BATCH)):
        (folder / name).mkdir()
        job = write_job(folder / name, _source(rows))
        files = []
        for file in job.payload:
            with (folder / name / file.path).open("rb") as data:
                digest = file_digest(data, "sha256").hexdigest()
            files.append((file.path, digest, file.size))
        (folder / f"{name}.payload").write_text(json.dumps(files))
    return sum(file.blob.size for file in payload(folder, LARGE))


def _source(rows: int) -> JobSource:
    step, outer, evaluate = ProgramBuilder(), ProgramBuilder(), ProgramBuilder()
    total = step.node("sum", step.input("batch.x", "f32", (_BATCH, _ROW)), dims=[0, 1], keepdim=False)
    step.output("global.w", step.node("add", step.input("global.w", "f32", ()), total))
    step.output("metric.loss", total)
    outer.output("global.w", outer.input("aggregate.w", "f32", ()))
    evaluate.output("metric.w", evaluate.input("global.w", "f32", ()))
    return JobSource(
        name="data",
        seed=1,
        rounds=1,
        slots=1,
        round_steps=_STEPS,
        batch=_BATCH,
        segment_steps=_STEPS,
        aggregation=CLOSING,
        step=step.build(),
        outer=outer.build(),
        eval=evaluate.build(),
        metrics=("loss",),
        global_state={"w": np.zeros((), np.float32)},
        local_state={},
        data={"x": np.random.default_rng(1).random((rows, _ROW), np.float32)},
    )


def payload(folder: Path, name: str) -> Iterator[t.PayloadFile]:
    """Yield the records of a job's payload files, with the paths that a consumer uses."""
    for path, digest, size in json.loads((folder / f"{name}.payload").read_text()):
        yield t.PayloadFile(path, t.BlobRef(bytes.fromhex(digest), size))


def train_shares(jobs: Sequence[Path], folder: Path) -> tuple[float, int]:
    """Train a share of each of two jobs as a provider; return the second job's seconds and added memory (bytes).

    The roots of the boundaries are written next to each job, for the replay.
    """
    (_, first), (seconds, second) = (_share(job, folder / job.name) for job in jobs)
    return seconds, second - first


def _share(job: Path, folder: Path) -> tuple[float, int]:
    """Train a share; return its seconds, and the peak memory of its worker in bytes."""
    own = folder / "share"
    own.mkdir(parents=True)
    document = parse_job((job / DOCUMENT).read_bytes()).document
    order = WorkOrder(
        job=str(job),
        folder=str(own),
        global_in=str(job / GLOBAL_STATE),
        local_in=str(job / LOCAL_STATE),
        global_root=document.global_root,
        local_root=document.local_root,
        round=0,
        slot=0,
        engine=Engine(NUMPY, memory=usable_memory()),
        boundaries=(),
    )
    messages: SimpleQueue[dict[str, Any]] = SimpleQueue()
    trainer, start = SandboxedTrainer(partial(_hear, messages), folder), perf_counter()
    boundaries = [boundary_root(document.global_root, document.local_root, ()).hex()]
    try:
        trainer.start(_KEY, order, Honest().worker(_KEY))
        message: dict[str, Any] = {}
        while not ENDS & message.keys():
            message = messages.get(timeout=600)
            if message.get("boundary", {}).get("index") == 1:
                boundaries.append(message["boundary"]["root"])
        if "done" not in message:
            raise RuntimeError(f"the share has no result: {message}")
        seconds = perf_counter() - start
        (pid,) = trainer.pids()
        most = memory("VmHWM", pid)
    finally:
        trainer.close()
    job.with_suffix(".trained").write_text(json.dumps(boundaries))
    return seconds, most


def _hear(messages: "SimpleQueue[dict[str, Any]]", _key: ShareKey, message: dict[str, Any]) -> None:
    messages.put(message)


def replay_shares(jobs: Sequence[Path], trained: Sequence[Path]) -> tuple[float, int]:
    """Replay the shares of two jobs in a pool; return the second job's seconds and the growth of the process (bytes).

    ``trained`` are the folders where the jobs were trained.
    """
    most = []
    with ReplayPool(1, reads=[*jobs, *trained]) as pool:
        for job, other in zip(jobs, trained, strict=True):
            roots = json.loads(other.with_suffix(".trained").read_text())
            first, last = map(bytes.fromhex, roots)
            states = StateFiles(job / GLOBAL_STATE, job / LOCAL_STATE)
            start = perf_counter()
            outcome = pool.submit(
                exact.check_segment,
                SegmentCheck(
                    directory=job,
                    part=RoundSlot(0, 0),
                    index=0,
                    start=OpenedStates(states, (), first),
                    end_root=last,
                    engine=Engine(NUMPY),
                ),
            ).result()
            seconds = perf_counter() - start
            if outcome.reason != ShareReason.NONE:
                raise RuntimeError(f"the share does not hold: {outcome}")
            most.append(pool.submit(memory, "VmHWM").result())
    return seconds, most[1] - most[0]

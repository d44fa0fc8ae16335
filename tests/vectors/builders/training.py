"""A whole small job, from its document and data to the state that it ends in, with every root on the way."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pol.executor.backend import backend
from pol.executor.interface import Backend
from pol.executor.names import NUMPY, Engine
from pol.job.document import BATCH_NUMBER, STEP
from pol.job.load import LoadedJob, load_job
from pol.job.paths import DOCUMENT
from pol.job.program import Program, ProgramBuilder
from pol.job.sampling import IN_ORDER, WEIGHTED, Sampling
from pol.job.updates import CLOSING, CODED, DIFFERENCE
from pol.job.write import JobSource, write_job
from pol.state.arrays import State
from pol.work.records import Boundary, RoundSlot
from pol.work.train import aggregate, train_share
from tests.vectors.arithmetic.cases import tensor

ROWS, BATCH, SLOTS = 7, 3, 3
GOES_ON = "goes_on"
"""A job that goes on from another one, in which each slot begins with a local state of its own."""
SMALLEST = -1e-45
"""Of which a part rounds to -0."""


def build(chosen: Backend | None = None) -> Any:
    """Return what becomes of jobs, on a back end or the reference: each kind of update and order, one that goes on."""
    executor = chosen or backend(Engine(NUMPY))
    sources = {kind: _source(kind) for kind in (CLOSING, DIFFERENCE)}
    sources[CODED] = _coded(_source(DIFFERENCE))
    sources[GOES_ON] = _going_on(_source(CLOSING))
    for order, weights in ((IN_ORDER, ""), (WEIGHTED, "number")):
        sources[order] = replace(_source(CLOSING), sampling=Sampling(order, weights))
    return {name: _trained(source, executor) for name, source in sources.items()}


def _trained(source: JobSource, executor: Backend) -> Any:
    with TemporaryDirectory() as folder:
        write_job(Path(folder), source)
        document = json.loads((Path(folder) / DOCUMENT).read_bytes())
        loaded = load_job(Path(folder))
        own = [_tensors(state) for slot in range(SLOTS) if (state := loaded.slot_local(slot))]
    return {
        "document": document,
        "global": _tensors(loaded.global_state),
        "local": _tensors(loaded.local_state),
        **({"locals_of_other_slots": own} if own else {}),
        "data": _tensors(loaded.data.take(np.arange(loaded.data.rows))),
        "rounds": list(_rounds(loaded, executor)),
    }


def _rounds(loaded: LoadedJob, executor: Backend) -> Iterator[Any]:
    state: State = loaded.global_state
    local: list[State] = [loaded.local_state] * SLOTS
    for number in range(loaded.job.document.rounds):
        shares = [
            train_share(loaded, RoundSlot(number, slot), state, local[slot], backend=executor) for slot in range(SLOTS)
        ]
        ended = aggregate(loaded, state, [share.update for share in shares], executor)
        state, local = ended.state, [share.local_out for share in shares]
        yield {
            "slots": [
                {
                    "boundaries": [_boundary(boundary) for boundary in share.boundaries],
                    "update": _tensors(share.update),
                    "update_root": share.update_root.hex(),
                    "local": _tensors(share.local_out),
                }
                for share in shares
            ],
            "next": _tensors(state),
            "next_root": ended.root.hex(),
        }


def _boundary(boundary: Boundary) -> Any:
    return {
        "step": boundary.step,
        "global_root": boundary.global_root.hex(),
        "local_root": boundary.local_root.hex(),
        "metrics": [f"{bits:08x}" for bits in boundary.metrics],
        "root": boundary.root.hex(),
    }


def _tensors(state: State) -> Any:
    return {name: tensor(array) for name, array in state.items()}


def _source(kind: str) -> JobSource:
    values = (np.arange(ROWS * 2) * 37 % 101).astype(np.float32) / np.float32(64)
    return JobSource(
        name="training",
        seed=2**40 + 3,
        rounds=2,
        slots=SLOTS,
        round_steps=6,
        batch=BATCH,
        segment_steps=3,
        aggregation=kind,
        step=_step(),
        outer=_outer(kind),
        eval=_eval(),
        metrics=("loss", "tiny"),
        global_state={"w": np.array([0.1, -0.3], np.float32), "tiny": np.zeros((), np.float32)},
        local_state={
            "m": np.ones(2, np.float32),
            "unused": np.array([True, False]),
            "zero": np.ones((), np.float32),
        },
        data={"x": values.reshape(ROWS, 2), "number": np.arange(ROWS)},
        holdout={"x": values[:4].reshape(2, 2), "number": np.arange(2)},
        shard_rows=4,
    )


def _going_on(source: JobSource) -> JobSource:
    """Return a job of one round that begins in the midst of an epoch, at the fifth step."""
    locals_: list[State] = [{**source.local_state, "m": np.array([0.5, -slot], np.float32)} for slot in range(SLOTS)]
    return replace(source, rounds=1, first_step=5, local_state=locals_[0], slot_states=locals_)


def _coded(source: JobSource) -> JobSource:
    """Return a job whose slots send whole numbers of 1024ths, and keep the rest of each number for the next round."""
    close, outer = ProgramBuilder(), ProgramBuilder()
    moved = {}
    for name, shape in (("w", (2,)), ("tiny", ())):
        opening, closing = (close.input(f"{part}.{name}", "f32", shape) for part in ("opening", "closing"))
        moved[name] = close.node("sub", opening, closing)
    whole = close.node("add", close.input("local.rest", "f32", (2,)), moved["w"])
    code = close.node("cast", close.node("mul", whole, _number(close, 1024.0)), dtype="i64")
    sent = close.node("mul", close.node("cast", code, dtype="f32"), _number(close, 2.0**-10))
    # both numbers in one word: the first one times 2^20, plus the second one
    weights = close.constant("i64", (2,), np.array([2**20, 1], "<i8").tobytes())
    close.output("update.c", close.node("sum", close.node("mul", code, weights), dims=[0], keepdim=False))
    close.output("update.t", moved["tiny"])
    close.output("local.rest", close.node("sub", whole, sent))
    words = outer.input("updates.c", "i64", (SLOTS,))
    first = outer.node("floor_divide", outer.node("add", words, _count(outer, 2**19)), _count(outer, 2**20))
    second = outer.node("sub", words, outer.node("mul", first, _count(outer, 2**20)))
    sums = [outer.node("sum", part, dims=[0], keepdim=True) for part in (first, second)]
    total = outer.node("cast", outer.node("concat", *sums, dim=0), dtype="f32")
    step = outer.node("mul", total, _number(outer, 2.0**-10 / SLOTS))
    outer.output("global.w", outer.node("sub", outer.input("global.w", "f32", (2,)), step))
    # that of the first slot, so that the order matters
    of_slot_0 = outer.node("slice", outer.input("updates.t", "f32", (SLOTS,)), starts=[0], stops=[1], steps=[1])
    tiny = outer.node("reshape", of_slot_0, shape=[])
    outer.output("global.tiny", outer.node("sub", outer.input("global.tiny", "f32", ()), tiny))
    local: State = {**source.local_state, "rest": np.zeros(2, np.float32)}
    return replace(source, aggregation=CODED, close=close.build(), outer=outer.build(), local_state=local)


def _number(b: ProgramBuilder, value: float) -> int:
    return b.constant("f32", (), np.array(value, "<f4").tobytes())


def _count(b: ProgramBuilder, value: int) -> int:
    return b.constant("i64", (), np.array(value, "<i8").tobytes())


def _step() -> Program:
    """Read everything that a step is given: rows, both numbers, random numbers, both states."""
    b = ProgramBuilder()
    w, tiny = b.input("global.w", "f32", (2,)), b.input("global.tiny", "f32", ())
    m = b.input("local.m", "f32", (2,))
    x, row = b.input("batch.x", "f32", (BATCH, 2)), b.input("batch.number", "i64", (BATCH,))
    step, number = b.input(STEP, "i64", ()), b.input(BATCH_NUMBER, "i64", ())
    weight = b.node("cast", b.node("add", row, step), dtype="f32")
    drawn = b.node("uniform", number, shape=[BATCH, 2], site=4)
    taken = b.node("mul", b.node("mul", x, drawn), b.node("reshape", weight, shape=[BATCH, 1]))
    moved = b.node("mul", b.node("sum", taken, dims=[0], keepdim=False), _number(b, 0.01))
    next_m = b.node("add", b.node("mul", m, _number(b, 0.9)), moved)
    b.output("local.m", next_m)
    # written as +0
    b.output("local.zero", b.node("mul", b.input("local.zero", "f32", ()), _number(b, -0.0)))
    b.output("global.w", b.node("sub", w, b.node("tanh", next_m)))
    first = b.node("eq", number, _count(b, 0))
    b.output("global.tiny", b.node("where", first, _number(b, SMALLEST), tiny))
    b.output("metric.loss", b.node("sum", next_m, dims=[0], keepdim=False))
    begins = b.node("eq", step, _count(b, 0))
    b.output("metric.tiny", b.node("where", begins, _number(b, SMALLEST), _number(b, 0.0)))
    return b.build()


def _outer(kind: str) -> Program:
    """Take the aggregate over, but tell a zero with a sign from one without."""
    b = ProgramBuilder()
    for name, shape in (("w", (2,)), ("tiny", ())):
        value = b.input(f"aggregate.{name}", "f32", shape)
        signed = b.node("lt", b.node("div", _number(b, 1.0), value), _number(b, 0.0))
        zero = b.node("eq", value, _number(b, 0.0))
        shown = b.node("where", b.node("logical_and", signed, zero), _number(b, 5.0), value)
        if kind == DIFFERENCE:
            shown = b.node("sub", b.input(f"global.{name}", "f32", shape), shown)
        b.output(f"global.{name}", shown)
    return b.build()


def _eval() -> Program:
    b = ProgramBuilder()
    x = b.input("batch.x", "f32", (2, 2))
    b.output("metric.loss", b.node("sum", x, dims=[0, 1], keepdim=False))
    return b.build()

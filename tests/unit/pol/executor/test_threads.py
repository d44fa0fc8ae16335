"""Threads that share instructions: the same bits however many there are, and none where there is too little to do."""

import ctypes
import os
import platform
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pol.executor.native_backend import NativeBackend
from pol.job.program import Program, ProgramBuilder
from tests.support.programs import outcome
from tests.unit.pol.executor.ops import floats, get
from tests.unit.pol.executor.test_fusion import build, native, numbers


@pytest.mark.parametrize("bits", [8, 15, 22])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("rows", "summed", "columns"), [(5, 301, 400), (400, 301, 5), (9, 3, 17)])
def test_threads_pack_a_product_together(rows: int, summed: int, columns: int, turned: bool, bits: int) -> None:
    """Whole panels are theirs, and what is over; of operands that lie in rows, and in columns."""

    def make(b: ProgramBuilder) -> None:
        x, y = (
            b.input("global.x", "f32", (rows, summed)),
            b.input("global.y", "f32", (columns, summed)),
        )
        if turned:
            x, y = (b.node("add", value, value) for value in (x, y))
            x = b.node("permute", b.node("permute", x, dims=[1, 0]), dims=[1, 0])
        b.output("global.z", b.node("matmul", x, b.node("permute", y, dims=[1, 0]), bits=bits))
        other = b.node("matmul", b.node("permute", y, dims=[1, 0]), y, bits=bits)
        b.output("global.other", other)

    program = build(make)
    inputs = {"global.x": floats(rows, summed), "global.y": floats(columns, summed, seed=1)}
    expected = outcome(get("numpy"), program, inputs)
    for threads in (2, 3):
        crew = NativeBackend(native().library, threads=threads, grain=1)
        assert outcome(crew, program, inputs) == expected


@pytest.mark.parametrize("dtype", ["f32", "i64"])
@pytest.mark.parametrize("shape", [(7, 5, 40), (2, 33, 1), (64, 3, 100)])
def test_threads_share_what_is_reduced_taken_and_copied(shape: tuple[int, ...], dtype: str) -> None:
    def make(b: ProgramBuilder) -> None:
        x, rows = b.input("global.x", dtype, shape), b.input("rows", "i64", (50,))
        for dim in range(3):
            b.output(f"global.largest{dim}", b.node("amax", x, dims=[dim], keepdim=False))
            b.output(f"global.where{dim}", b.node("argmax", x, dim=dim, keepdim=False))
            b.output(f"global.sum{dim}", b.node("sum", x, dims=[dim], keepdim=False))
        zero = b.constant(dtype, (), bytes(4 if dtype == "f32" else 8))
        b.output("global.count", b.node("sum", b.node("gt", x, zero), dims=[2], keepdim=False))
        b.output("global.taken", b.node("take", x, rows))
        b.output("global.twice", b.node("concat", x, x, dim=1))
        b.output("global.turned", b.node("concat", *[b.node("permute", x, dims=[2, 0, 1])] * 2, dim=0))

    program = build(make)
    rows = np.random.default_rng(0).integers(0, shape[0], 50)
    inputs = {"global.x": numbers(shape, dtype, 1) - numbers(shape, dtype, 2), "rows": rows}
    expected = outcome(get("numpy"), program, inputs)
    for threads in (2, 3):
        crew = NativeBackend(native().library, threads=threads, grain=1)
        assert outcome(crew, program, inputs) == expected


_UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}
"""FE_UPWARD of C."""


@pytest.mark.skipif(platform.machine() not in _UPWARD, reason="only known where x86-64 or ARM round upward")
def test_threads_round_to_nearest_whatever_began_them() -> None:
    """A new thread rounds as the one that made it does at that moment."""
    program = build(_thirds)
    inputs = {"global.x": floats(1 << 21)}
    expected = outcome(get("numpy"), program, inputs)
    system = ctypes.CDLL(None)
    nearest = system.fegetround()
    assert system.fesetround(_UPWARD[platform.machine()]) == 0
    try:
        crew = NativeBackend(native().library, threads=3, grain=1)
    finally:
        assert system.fesetround(nearest) == 0
    for _ in range(20):
        assert outcome(crew, program, inputs) == expected


def _thirds(b: ProgramBuilder) -> None:
    x = b.input("global.x", "f32", (1 << 21,))
    third = b.constant("f32", (), np.float32(1 / 3).tobytes())
    b.output("global.x", b.node("mul", b.node("add", x, third), third))


def _switches(threads: set[str]) -> int:
    """Return how often these threads went to sleep."""
    found = 0
    for thread in threads:
        status = Path(f"/proc/self/task/{thread}/status").read_text()
        found += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux says how often a thread slept")
def test_a_short_program_wakes_no_thread() -> None:
    def run(program: Program, size: int) -> None:
        crew.compile(program, 1).run({"global.x": floats(size, size)})

    before = {path.name for path in Path("/proc/self/task").iterdir()}
    crew = NativeBackend(native().library, threads=2)
    workers = {path.name for path in Path("/proc/self/task").iterdir()} - before
    # the short one is worth two threads, but not to wake one
    short, long_ = (build(partial(_squares, size=size)) for size in (128, 512))
    deadline = time.monotonic() + 60
    # the first one to sleep is that which has just begun
    while not (slept := _switches(workers)) and time.monotonic() < deadline:
        os.sched_yield()
    for _ in range(50):
        run(short, 128)
    assert _switches(workers) == slept
    while _switches(workers) == slept and time.monotonic() < deadline:
        run(long_, 512)
    assert _switches(workers) > slept


def _squares(b: ProgramBuilder, size: int) -> None:
    x = b.input("global.x", "f32", (size, size))
    b.output("global.x", b.node("matmul", x, x, bits=15))

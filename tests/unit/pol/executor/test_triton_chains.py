"""Chains in kernels of Triton: the bits of the reference, by its interpreter, and instructions that each round once.

The interpreter computes with NumPy, so it shows that the text of a kernel says the right thing, and not what a compiler
makes of it: that is read in the instructions for a GPU, for which none is needed. That a GPU does what they say is left
for ``tests/gpu``.
"""

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pol.executor import backend as backends
from pol.executor.backend import torch_on
from pol.executor.chained_loop import OPERATIONS_MAX, ChainedLoop, ChainPlan, ChainStep, ElementwiseChain
from pol.executor.fusion import CHAINED, grouped
from pol.executor.interface import Backend
from pol.executor.kernel_text import KernelText, write_kernel
from pol.executor.known_program import KNOWN, answer, known_program
from pol.executor.torch_backend import TorchBackend
from pol.job.program import Program, ProgramBuilder
from pol.values import TensorType
from tests.support.programs import observed, shown
from tests.unit.pol.executor.ops import floats, get

triton = pytest.importorskip("triton", reason="Triton is not installed here")

from pol.executor import triton_chains  # noqa: E402
from pol.executor.triton_chains import Chains  # noqa: E402
from pol.executor.triton_kernels import OPTIONS, jitted  # noqa: E402

ROUNDED = re.compile(r"(add|sub|mul|div|sqrt)\.rn\.f(32|32x2|64)|cvt\.rn\.(f32\.f64|f32\.s64|f64\.s64)")
"""Instructions that round, once and to nearest, and keep subnormal numbers; ``x2`` does so for two numbers."""
UNROUNDED = re.compile(
    r"(setp\.(eq|neu?|lt|le|gt|ge|nan|num|[lg][te]u|equ)|selp|abs|neg|mov)\.f(32|64)"
    r"|cvt\.f64\.f32|cvt\.rzi\.s64\.f32"
)
HARMLESS = (ROUNDED, UNROUNDED)


@pytest.fixture(autouse=True)
def no_kernels_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_chains, "_kernels", {})


def failing() -> TorchBackend:
    """Torch on a processor, for which Triton makes no kernels."""
    return TorchBackend("cpu", chains=Chains(torch.device("cpu")))


def chains_of(program: Program) -> list[ElementwiseChain]:
    rows = ChainPlan(program, grouped(program))
    return [rows.chain(at) for at, group in enumerate(rows.groups) if rows.is_chain(group)]


def floating(text: KernelText, capability: int) -> set[str]:
    """The instructions with floating-point numbers that a compiler makes of a kernel for such GPUs."""
    source = triton.compiler.ASTSource(jitted(text), signature=dict(text.parameters))
    target = triton.backends.compiler.GPUTarget("cuda", capability, 32)
    made = triton.compile(source, target=target, options=dict(OPTIONS)).asm["ptx"]
    found = re.findall(r"^\s+(?:@!?%p\d+\s+)?([a-z][\w.]*)", made, re.MULTILINE)
    return {name for name in found if re.search(r"\.f(16|32|64)", name)}


def test_interpreted_kernels_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.pol.executor.interpreted"],
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
        env={**os.environ, "TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["wrong"] == []
    assert said["kernels"] > 50


@pytest.mark.parametrize("capability", [80, 120])
def test_no_instruction_is_fused_or_only_nearly_right(
    capability: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    chains = chains_of(known_program())
    assert {step.op for chain in chains for step in chain.steps} == CHAINED
    names = set().union(*(floating(write_kernel(chain), capability) for chain in chains))
    assert not {name for name in names if not any(known.fullmatch(name) for known in HARMLESS)}
    # what the test is blind without
    rounded = "add.rn.f32 mul.rn.f32 div.rn.f32 sqrt.rn.f32 add.rn.f64 mul.rn.f64 div.rn.f64 cvt.rn.f32.f64"
    assert names >= set(rounded.split())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_what_runs_in_chains_has_the_bits_of_its_nodes(seed: int) -> None:
    """Their order, what they read and leave, and what is let go; node by node inside, as where no kernel is."""
    program, inputs = shown(np.random.default_rng(seed))
    executor = failing()
    assert executor.in_chains
    assert observed(executor, program, inputs) == observed(get("numpy"), program, inputs)


def test_where_no_kernel_can_be_made_nodes_run_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    executor = failing()
    with caplog.at_level(logging.WARNING):
        assert answer(executor) == KNOWN
    assert not executor.in_chains
    assert caplog.text.count("nodes run one by one on cpu, without kernels of Triton: ") == 1


def test_a_process_makes_so_many_kernels_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_chains, "KERNELS_MAX", 0)
    executor = failing()
    assert answer(executor) == KNOWN
    assert executor.in_chains, "none was begun"


def test_chains_that_compute_wrongly_are_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No device is at hand whose chains do: another answer is what they have to give."""

    def answer_of(executor: Backend) -> str:
        assert isinstance(executor, TorchBackend)
        return "another" if executor.in_chains else KNOWN

    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    monkeypatch.setattr(backends, "answer", answer_of)
    made = torch_on("cpu:0")
    assert isinstance(made, TorchBackend)
    assert not made.in_chains
    assert "chains compute wrong results on cpu:0 and are not used" in caplog.text


def of(shape: tuple[int, ...], *operands: tuple[int, ...]) -> KernelText:
    """The kernel of a sum of operands of such shapes."""
    types = tuple(TensorType("f32", operand) for operand in operands)
    steps = [ChainStep("add", "f32", (0, 1))]
    steps += [ChainStep("add", "f32", (len(types) + at, at + 2)) for at in range(len(types) - 2)]
    return write_kernel(ElementwiseChain(shape, types, tuple(steps), (len(steps) - 1,)))


@pytest.mark.parametrize(
    ("shape", "operands", "sizes"),
    [
        ((4, 5), [(4, 5), (4, 5)], (20,)),
        ((4, 5), [(4, 5), (1, 1)], (20,)),
        ((4, 5), [(4, 5), (5,)], (20, 5)),
        ((4, 5), [(4, 1), (5,)], (20, 5)),
        ((2, 3, 4, 5), [(2, 3, 4, 5), (4, 1)], (120, 4, 5)),
        ((2, 3, 4, 5), [(2, 3, 4, 5), (4, 5)], (120, 20)),
        ((2, 1, 4, 1), [(2, 1, 1, 1), (4, 1)], (8, 4)),
    ],
)
def test_dimensions_are_merged(
    shape: tuple[int, ...], operands: Sequence[tuple[int, ...]], sizes: tuple[int, ...]
) -> None:
    assert of(shape, *operands).sizes == sizes


def test_chains_that_differ_in_sizes_share_a_kernel() -> None:
    assert of((4, 5), (4, 5), (5,)).text == of((2, 3, 7), (2, 3, 7), (7,)).text
    assert of((4, 5), (4, 5), (5,)).text != of((4, 5), (4, 5), (4, 1)).text


def test_a_kernel_has_an_end() -> None:
    builder = ProgramBuilder()
    x = builder.input("global.x", "f32", (4,))
    for _ in range(20):
        x = builder.node("erf", x)
    builder.output("global.x", x)
    found = chains_of(builder.build())
    assert sum(len(chain.steps) for chain in found) == 20
    assert max(len(write_kernel(chain).text.splitlines()) for chain in found) <= 1.5 * OPERATIONS_MAX


def test_memory_that_a_job_has_not_declared_is_not_used() -> None:
    """Chains that read late would hold twenty large values instead of one at a time."""
    size = 64
    builder = ProgramBuilder()
    x = total = builder.input("global.x", "f32", (size, size))
    for _ in range(20):
        total = builder.node("add", total, builder.node("matmul", x, x, bits=15))
    builder.output("global.x", total)
    program, inputs = builder.build(), {"global.x": floats(size, size)}
    assert ChainPlan(program, grouped(program)).peak() > 19 * 4 * size**2
    executor = failing()
    compiled = executor.compile(program, 7)
    assert isinstance(compiled, ChainedLoop)
    assert len(compiled._rows) == 40, "each sum is a row of its own"
    assert observed(executor, program, inputs) == observed(get("numpy"), program, inputs)

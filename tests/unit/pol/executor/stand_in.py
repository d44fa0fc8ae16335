"""The same work in exact arithmetic and in plain FP32, to be done wherever libraries choose other kernels."""

from hashlib import sha256

import numpy as np

from pol.executor.interface import Backend, run
from pol.job.program import Program, ProgramBuilder
from pol.state.arrays import Array
from pol.state.canonical import state_tree
from tests.unit.pol import mlp

STEPS = 5
ROWS, SUMMED, COLUMNS = 67, 1030, 515


def large_program() -> Program:
    """Products, sums and functions that are large enough for threads and blocked kernels."""
    builder = ProgramBuilder()
    a = builder.input("global.a", "f32", (ROWS, SUMMED))
    b = builder.input("global.b", "f32", (SUMMED, COLUMNS))
    product = builder.node("matmul", a, b, bits=15)
    back = builder.node("matmul", builder.node("permute", a, dims=[1, 0]), product, bits=15)
    builder.output("global.back", back)
    for op in ("tanh", "erf"):
        value = builder.node(op, product)
        builder.output(f"global.{op}", value)
        builder.output(f"metric.{op}", builder.node("sum", value, dims=[0, 1], keepdim=False))
    return builder.build()


def operands() -> tuple[Array, Array]:
    generator = np.random.Generator(np.random.Philox(3))
    a = generator.random((ROWS, SUMMED), np.float32) - np.float32(0.5)
    b = generator.random((SUMMED, COLUMNS), np.float32) - np.float32(0.5)
    return a, b


def exact(chosen: Backend) -> str:
    """Root of five training steps and of the large program's results."""
    weights, local = mlp.initial_states()
    state: dict[str, Array] = {f"global.{name}": value for name, value in weights.items()}
    state |= {f"local.{name}": value for name, value in local.items()}
    batch = {f"batch.{name}": column for name, column in mlp.rows(mlp.BATCH).items()}
    program = mlp.step_program()
    for step in range(STEPS):
        state |= run(program, {**state, **batch, **mlp.numbers(step)}, 7, chosen)
    a, b = operands()
    state |= run(large_program(), {"global.a": a, "global.b": b}, 7, chosen)
    return state_tree(state).root.hex()


def plain_numpy() -> str:
    """The large program's products in FP32 as NumPy does them."""
    a, b = operands()
    return sha256((a.T @ (a @ b)).tobytes()).hexdigest()


def plain_torch() -> str:
    """The same in torch, with a step of an ordinary module."""
    import torch

    a, b = (torch.from_numpy(value) for value in operands())
    product = a.T @ (a @ b)
    left = a.clone().requires_grad_()
    torch.nn.functional.gelu(left @ b).logsumexp(1).sum().backward()  # type: ignore[no-untyped-call]
    assert left.grad is not None
    return sha256(product.numpy().tobytes() + left.grad.numpy().tobytes()).hexdigest()

"""Kernels in another process, asked through its standard input and output (``answers.c``)."""

import subprocess
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pol.state.arrays import Array
from tools.setup.steps import Command

_PROCESSOR, _ROUNDS_EXACTLY, _PRODUCT, _SUM, _UNIFORM, _FUNCTION = range(6)
_FUNCTIONS = ("exp", "log", "tanh", "erf")


class Asked:
    """What a library does, done by a program."""

    def __init__(self, command: Command) -> None:
        self._program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.communicate()

    def processor(self) -> int:
        """Return a bit for each instruction set."""
        self._ask(_PROCESSOR)
        return self._word()

    def check_thread(self) -> None:
        """Refuse a program that rounds in another way."""
        self._ask(_ROUNDS_EXACTLY)
        assert self._word() == 1

    def product(self, bits: int, left: Array, right: Array) -> Array:
        """Return the product of matrices, which keep their strides."""
        if left.ndim > 2:
            parts = [self.product(bits, *pair) for pair in zip(left, right, strict=True)]
            return np.stack(parts)
        (rows, summed), columns = left.shape, right.shape[1]
        memories = [_memory(x) for x in (left, right)]
        sizes = [memory.size for memory, _ in memories]
        strides = np.array([stride for _, strides in memories for stride in strides], np.int64)
        data = [strides, *(memory for memory, _ in memories)]
        self._ask(_PRODUCT, bits, rows, summed, columns, *sizes, data=data)
        return self._numbers(rows, columns)

    def function(self, name: str, x: Array) -> Array:
        """Return a function of each element."""
        self._ask(_FUNCTION, _FUNCTIONS.index(name), x.size, data=[np.ascontiguousarray(x)])
        return self._numbers(*x.shape)

    def sum(self, x: Array, dim: int) -> Array:
        """Return the halving sum over a dimension."""
        before, after = x.shape[:dim], x.shape[dim + 1 :]
        outer, inner = int(np.prod(before, dtype=int)), int(np.prod(after, dtype=int))
        self._ask(_SUM, outer, x.shape[dim], inner, data=[np.ascontiguousarray(x)])
        return self._numbers(*before, *after)

    def uniform(self, seed: int, site: int, step: int, count: int) -> NDArray[np.float32]:
        """Return numbers in [0, 1)."""
        self._ask(_UNIFORM, seed, site, step, count)
        return self._numbers(count)

    def _ask(self, kind: int, *words: int, data: list[NDArray[np.generic]] | None = None) -> None:
        question = np.zeros(8, np.uint64)
        question[: 1 + len(words)] = kind, *words
        assert self._program.stdin
        for part in (question, *(data or ())):
            self._program.stdin.write(part.tobytes())

    def _word(self) -> int:
        return int.from_bytes(self._read(8), "little", signed=True)

    def _numbers(self, *shape: int) -> Array:
        count = int(np.prod(shape, dtype=int))
        return np.frombuffer(self._read(4 * count), np.float32).reshape(shape)

    def _read(self, size: int) -> bytes:
        assert self._program.stdout
        read = b""
        while len(read) < size:
            part = self._program.stdout.read(size - len(read))
            if not part:
                raise EOFError(f"the program ended with {self._program.wait()}")
            read += part
        return read


def _memory(x: Array) -> tuple[Array, list[int]]:
    """Return the memory that a matrix takes, from its first element on, and its strides in elements."""
    if min(x.strides) < 0:
        x = np.ascontiguousarray(x)
    strides = [stride // x.itemsize for stride in x.strides]
    size = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, strides, strict=True))
    return np.lib.stride_tricks.as_strided(x, (size,), (x.itemsize,)), strides

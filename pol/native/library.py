"""The libraries of native kernels. The set-up builds one file for each instruction set.

NumPy defines the results. If no library is built, or ``ASSAY_NATIVE=0`` is set, NumPy computes the same results more
slowly. A library is used only after it passed the test in :mod:`pol.native.self_test`.
"""

import ctypes
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from weakref import finalize, ref

import numpy as np
from numpy.typing import NDArray

from pol.errors import ExecutionError
from pol.native.self_test import KNOWN, answers
from pol.state.arrays import Array

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent / "built"
PORTABLE = "portable"
INSTRUCTION_SETS = {"avx512vnni": 4, "avxvnni": 2, "avx2": 1, "dotprod": 8, PORTABLE: 0}
"""Instruction sets, the best first, each with its bits in the result of ``assay_processor``."""
SWITCH = "ASSAY_NATIVE"
"""Environment variable: ``OFF`` for no native kernels, the name of an instruction set, or empty for the best one."""
OFF = "0"

_INTERFACE = 11
_ADDRESS, _SIZE, _STATUS = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_OUTSIDE = 2
_FUNCTIONS = ("exp", "log", "tanh", "erf")
_ARGUMENTS: dict[str, tuple[Sequence[object], object]] = {
    "interface": ((), _STATUS),
    "processor": ((), _STATUS),
    "rounds_exactly": ((), _STATUS),
    "product": (
        (_STATUS, _SIZE, *[_ADDRESS] * 3, *[_SIZE] * 2, _ADDRESS, *[_SIZE] * 2, _ADDRESS, *[_SIZE] * 3),
        _STATUS,
    ),
    "integer_sums": (
        (
            _STATUS,
            _SIZE,
            *[_ADDRESS] * 3,
            *[_SIZE] * 2,
            _ADDRESS,
            *[_SIZE] * 2,
            *[_ADDRESS] * 3,
            *[_SIZE] * 3,
            _ADDRESS,
            _SIZE,
        ),
        _STATUS,
    ),
    "run": ((_ADDRESS, *[_SIZE] * 2, _ADDRESS, _SIZE, _ADDRESS, _ADDRESS, _SIZE, _ADDRESS), _STATUS),
    "crew_begin": ((_SIZE,), _ADDRESS),
    "crew_end": ((_ADDRESS,), None),
    "forget": ((), None),
    "sum": ((_ADDRESS, *[_SIZE] * 3, _ADDRESS), _STATUS),
    "uniform": ((ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint64, _ADDRESS, _SIZE), None),
    **dict.fromkeys(_FUNCTIONS, ((_ADDRESS, _ADDRESS, _SIZE), None)),
}


class Library:
    """The kernels of one file, for FP32 arrays of NumPy. Any thread may call them, and they release the GIL."""

    def __init__(self, name: str) -> None:
        """Load the library with this name. The processor must have the instruction set of that name.

        Raises OSError if the file is missing or has another version.
        """
        self.name = name
        self._functions = ctypes.CDLL(str(FOLDER / f"{name}.so"))
        for function, (arguments, result) in _ARGUMENTS.items():
            try:
                kernel = getattr(self._functions, f"assay_{function}")
            except AttributeError:
                raise OSError(f"the library for {name} has no function {function}") from None
            kernel.argtypes = arguments
            kernel.restype = result
        if self._functions.assay_interface() != _INTERFACE:
            raise OSError(f"the library for {name} has another version")

    def processor(self) -> int:
        """Return the instruction sets that this processor has, as bits of an integer."""
        bits: int = self._functions.assay_processor()
        return bits

    def check_thread(self) -> None:
        """Raise ExecutionError if this thread does not round to nearest, or flushes subnormal numbers to zero."""
        if not self._functions.assay_rounds_exactly():
            reason = "this thread flushes subnormal numbers to zero, or does not round to nearest"
            raise ExecutionError("backend", reason)

    def product(self, bits: int, left: Array, right: Array) -> Array:
        """Return the product of matrices in integers of ``bits`` bits, as ``pol/ops/product.py`` defines it.

        The operands have the shapes [..., M, K] and [..., K, N].
        """
        rows, summed = left.shape[-2:]
        columns = right.shape[-1]
        result = np.empty((*left.shape[:-1], columns), np.float32)
        count = result.size // (rows * columns) if result.size else 0
        if count:
            starts = [_offsets(operand) for operand in (left, right)]
            self._check(
                self._functions.assay_product(
                    bits,
                    count,
                    *map(address, starts),
                    address(left),
                    *_strides(left)[-2:],
                    address(right),
                    *_strides(right)[-2:],
                    address(result),
                    rows,
                    summed,
                    columns,
                )
            )
        return result

    def integer_sums(
        self,
        bits: int,
        left: Array,
        right: Array,
        largest: tuple[Array, Array],
        crew: int | None = None,
        grain: int = 0,
    ) -> NDArray[np.int64]:
        """Return the exact sums of a product of integers, as ``pol/ops/product.py`` defines it.

        A product of at least twice ``grain`` operations is divided among the threads of ``crew``.
        """
        rows, summed = left.shape[-2:]
        columns = right.shape[-1]
        if not summed:
            return np.zeros((*left.shape[:-1], columns), np.int64)
        result = np.empty((*left.shape[:-1], columns), np.int64)
        count = result.size // (rows * columns) if result.size else 0
        if count:
            starts = [_offsets(operand) for operand in (left, right)]
            of_left, of_right = (np.asarray(numbers, np.float32, order="C") for numbers in largest)
            self._check(
                self._functions.assay_integer_sums(
                    bits,
                    count,
                    *map(address, starts),
                    address(left),
                    *_strides(left)[-2:],
                    address(right),
                    *_strides(right)[-2:],
                    address(of_left),
                    address(of_right),
                    address(result),
                    rows,
                    summed,
                    columns,
                    crew,
                    grain,
                )
            )
        return result

    def function(self, name: str, x: Array) -> Array:
        """Return the function ``exp``, ``log``, ``tanh`` or ``erf`` of each element, as ``pol/ops/functions.py``
        defines it.
        """
        x = np.asarray(x, order="C")
        result = np.empty(x.shape, np.float32)
        getattr(self._functions, f"assay_{name}")(address(x), address(result), x.size)
        return result

    def sum(self, x: Array, dim: int) -> Array:
        """Return the halving sum of x over one dimension, as ``pol/ops/reduce.py`` defines it.

        The result does not have this dimension.
        """
        x = np.asarray(x, order="C")
        rest = (*x.shape[:dim], *x.shape[dim + 1 :])
        if not x.size:
            return np.zeros(rest, np.float32)
        result = np.empty(rest, np.float32)
        outer, inner = _size(x.shape[:dim]), _size(x.shape[dim + 1 :])
        self._check(self._functions.assay_sum(address(x), outer, x.shape[dim], inner, address(result)))
        return result

    def run(
        self,
        words: int,
        part: range,
        bases: ctypes.Array[Any],
        canonical: bool,
        not_finite: ctypes.Array[Any],
        crew: int | None,
        grain: int,
    ) -> tuple[int, int] | None:
        """Run a part of the words of a tape (:mod:`pol.executor.tape`) on values at the addresses ``bases``.

        ``words`` is the address of the tape's first word, and ``part`` the indexes of the words to run. Returns None.
        If an instruction uses a row number that its table does not have, the method returns the index of the
        instruction's first word, and the row number. If ``canonical`` is true, zeros of outputs become +0.0, and
        outputs with NaN or infinity are marked in ``not_finite``, which has a byte per output. An instruction with at
        least twice ``grain`` operations is divided among the threads of ``crew``.
        """
        end = (ctypes.c_int64 * 2)()
        status = self._functions.assay_run(words, part.start, part.stop, bases, canonical, not_finite, crew, grain, end)
        self._check(status)
        return (end[0], end[1]) if status == _OUTSIDE else None

    def forget(self) -> None:
        """Free the memory that this thread keeps from run to run, such as the packed operands of a product."""
        self._functions.assay_forget()

    def start_crew(self, owner: object, threads: int) -> int | None:
        """Start a crew of threads for runs, which ends with its ``owner``.

        Return None if a run uses only one thread, or if no further thread can be started. If the crew is busy, or was
        started in another process, a run uses only the thread that called it.
        """
        crew: int | None = self._functions.assay_crew_begin(threads)
        if crew is not None:
            finalize(owner, self._functions.assay_crew_end, crew).atexit = False
        return crew

    def uniform(self, seed: int, site: int, step: int, count: int) -> NDArray[np.float32]:
        """Return ``count`` random numbers in [0, 1); see ``pol/ops/philox.py``."""
        result = np.empty(count, np.float32)
        self._functions.assay_uniform(seed, site, step % 2**64, address(result), count)
        return result

    def _check(self, status: int) -> None:
        if not status:
            raise MemoryError


@dataclass(frozen=True, slots=True)
class LibraryChoice:
    """The native library to use. If the library is None, ``reason`` explains in a few words why there is no library."""

    library: Library | None
    reason: str = ""


@cache
def choose_library() -> LibraryChoice:
    """Return the native library to use. If a library exists but cannot be used, log the reason.

    Raises ExecutionError if the environment variable ``ASSAY_NATIVE`` has an unknown value.
    """
    setting = os.environ.get(SWITCH, "")
    if setting == OFF:
        return LibraryChoice(None, f"{SWITCH}={OFF}")
    if setting and setting not in INSTRUCTION_SETS:
        known = ", ".join((OFF, *INSTRUCTION_SETS))
        raise ExecutionError(SWITCH, f"{setting!r} is not a known value; use one of {known}")
    try:
        # This library runs on every processor, and reports the instruction sets of this processor.
        available = Library(PORTABLE).processor()
    except OSError as error:
        exists = (FOLDER / f"{PORTABLE}.so").exists()
        reason = f"the native library cannot be loaded: {error}" if exists else "no native library was built"
        log.warning("there are no native kernels; NumPy computes, which is several times slower: %s", reason)
        return LibraryChoice(None, f"{reason} (run make setup)")
    reasons = []
    for name in [setting] if setting else INSTRUCTION_SETS:
        if INSTRUCTION_SETS[name] & ~available:
            if setting:
                reasons.append(f"this processor has no {name}")
            continue
        try:
            library = Library(name)
            if answers(library) == KNOWN:
                return LibraryChoice(library)
            log.error("the native kernels for %s compute wrong results and are not used", name)
            reasons.append(f"the native library for {name} computes wrong results")
        except (OSError, ExecutionError) as error:
            log.warning("the native kernels for %s are not used: %s", name, error)
            reasons.append(f"the native library for {name} cannot be used ({error})")
    return LibraryChoice(None, "; ".join(reasons))


def load_library() -> Library | None:
    """Return the native library that :func:`choose_library` chooses. Return None if there is no library."""
    return choose_library().library


def address(array: Array) -> int:
    """Return the address of an array's first element."""
    number: int = array.__array_interface__["data"][0]
    return number


class Addresses:
    """A cache of the addresses of arrays that are used repeatedly, such as a state that is trained in place.

    NumPy takes longer to return an address than some kernels take to run. The cache does not keep arrays alive.
    """

    def __init__(self, count: int) -> None:
        """Create an empty cache for lists of ``count`` arrays."""
        self._known: list[tuple[Callable[[], Array | None], int]] = [(_nothing, 0)] * count

    def of(self, arrays: Sequence[Array]) -> list[int]:
        """Return the address of each array. Every call must have ``count`` arrays."""
        places = []
        for number, array in enumerate(arrays):
            # The entry is read and written as one tuple, since another thread may write it at the same time.
            cached, place = self._known[number]
            if cached() is not array:
                place = address(array)
                self._known[number] = ref(array), place
            places.append(place)
        return places


def _nothing() -> None:
    return None


def _strides(array: Array) -> list[int]:
    """Return the strides of an array, in elements."""
    return [stride // array.itemsize for stride in array.strides]


def _offsets(operand: Array) -> NDArray[np.int64]:
    """Return the offset of each matrix in a batch of matrices, in elements."""
    offsets = np.zeros(1, np.int64)
    for size, stride in zip(operand.shape[:-2], _strides(operand)[:-2], strict=True):
        offsets = (offsets[:, None] + stride * np.arange(size, dtype=np.int64)).reshape(-1)
    return offsets


def _size(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))

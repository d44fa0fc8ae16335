"""The library of native kernels, as the set-up has built it: a file for each instruction set.

NumPy stays the definition. Where no library is built, or ``ASSAY_NATIVE=0`` is set, nothing is lost but time. A library
is used only after its answers to known questions were right (:mod:`pol.native.self_test`).
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
"""Best first, each with its bit in what ``assay_processor`` returns."""
SWITCH = "ASSAY_NATIVE"
"""``OFF`` for none, the name of an instruction set to force it, nothing for the best."""
OFF = "0"

_INTERFACE = 9
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
    "run": ((_ADDRESS, _SIZE, _ADDRESS, _SIZE, _ADDRESS, _ADDRESS, _SIZE, _ADDRESS), _STATUS),
    "crew_begin": ((_SIZE,), _ADDRESS),
    "crew_end": ((_ADDRESS,), None),
    "sum": ((_ADDRESS, *[_SIZE] * 3, _ADDRESS), _STATUS),
    "uniform": ((ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint64, _ADDRESS, _SIZE), None),
    **dict.fromkeys(_FUNCTIONS, ((_ADDRESS, _ADDRESS, _SIZE), None)),
}


class Library:
    """The kernels of one file. Arrays are FP32 and NumPy's; any thread may call, and others run meanwhile."""

    def __init__(self, name: str) -> None:
        """Load the library for an instruction set that the processor has; OSError where it is not there or another."""
        self.name = name
        self._functions = ctypes.CDLL(str(FOLDER / f"{name}.so"))
        for function, (arguments, result) in _ARGUMENTS.items():
            try:
                found = getattr(self._functions, f"assay_{function}")
            except AttributeError:
                raise OSError(f"{name} has no {function}") from None
            found.argtypes, found.restype = arguments, result
        if self._functions.assay_interface() != _INTERFACE:
            raise OSError(f"{name} is of another version")

    def processor(self) -> int:
        """Return a bit for each instruction set that this processor has."""
        bits: int = self._functions.assay_processor()
        return bits

    def check_thread(self) -> None:
        """Refuse to compute in a thread that rounds in another way, or flushes subnormal numbers to zero."""
        if not self._functions.assay_rounds_exactly():
            reason = "this thread flushes subnormal numbers to zero, or does not round to nearest"
            raise ExecutionError("backend", reason)

    def product(self, bits: int, left: Array, right: Array) -> Array:
        """Return the product of [..., M, K] and [..., K, N] in integers of ``bits``; see ``pol/ops/product.py``."""
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

    def function(self, name: str, x: Array) -> Array:
        """Return ``exp``, ``log``, ``tanh`` or ``erf`` of each element; see ``pol/ops/functions.py``."""
        x = np.asarray(x, order="C")
        result = np.empty(x.shape, np.float32)
        getattr(self._functions, f"assay_{name}")(address(x), address(result), x.size)
        return result

    def sum(self, x: Array, dim: int) -> Array:
        """Return the halving sum over one dimension, which goes; see ``pol/ops/reduce.py``."""
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
        words: NDArray[np.int64],
        bases: ctypes.Array[Any],
        canonical: bool,
        not_finite: NDArray[np.uint8],
        crew: int | None,
        grain: int,
    ) -> tuple[int, int] | None:
        """Run a tape (:mod:`pol.executor.tape`) on what lies at its bases, and mark outputs that are not finite.

        Returns None, or which word begins the instruction that asked for a row that its table does not have, and the
        row. With ``canonical`` zeros of outputs have no sign, and only then anything is marked. An instruction of twice
        ``grain`` operations is shared with a ``crew``.
        """
        end = (ctypes.c_int64 * 2)()
        status = self._functions.assay_run(
            address(words), len(words), bases, canonical, address(not_finite), crew, grain, end
        )
        self._check(status)
        return (end[0], end[1]) if status == _OUTSIDE else None

    def start_crew(self, owner: object, threads: int) -> int | None:
        """Start threads for runs, and end them with their owner; None for one thread, and where no other can start.

        A run that finds the crew busy, or in another process than it was started in, does without.
        """
        crew: int | None = self._functions.assay_crew_begin(threads)
        if crew is not None:
            finalize(owner, self._functions.assay_crew_end, crew).atexit = False
        return crew

    def uniform(self, seed: int, site: int, step: int, count: int) -> NDArray[np.float32]:
        """Return numbers in [0, 1); see ``pol/ops/philox.py``."""
        result = np.empty(count, np.float32)
        self._functions.assay_uniform(seed, site, step % 2**64, address(result), count)
        return result

    def _check(self, done: int) -> None:
        if not done:
            raise MemoryError


@dataclass(frozen=True, slots=True)
class LibraryChoice:
    """The library to compute with; or None, and why in a phrase."""

    library: Library | None
    reason: str = ""


@cache
def choose_library() -> LibraryChoice:
    """Return what to compute with; what is wrong with a library that is there is logged.

    Raises ExecutionError where the switch names what there is not.
    """
    wanted = os.environ.get(SWITCH, "")
    if wanted == OFF:
        return LibraryChoice(None, f"{SWITCH}={OFF}")
    if wanted and wanted not in INSTRUCTION_SETS:
        known = ", ".join((OFF, *INSTRUCTION_SETS))
        raise ExecutionError(SWITCH, f"{wanted!r} is none of {known}")
    try:
        # it runs on every processor, and says what this one has
        has = Library(PORTABLE).processor()
    except OSError as error:
        there = (FOLDER / f"{PORTABLE}.so").exists()
        reason = f"the native library cannot be loaded: {error}" if there else "no native library was built"
        log.warning("no native kernels, so NumPy computes, some times slower: %s", reason)
        return LibraryChoice(None, f"{reason} (run make setup)")
    reasons = []
    for name in [wanted] if wanted else INSTRUCTION_SETS:
        if INSTRUCTION_SETS[name] & ~has:
            if wanted:
                reasons.append(f"this processor has no {name}")
            continue
        try:
            library = Library(name)
            if answers(library) == KNOWN:
                return LibraryChoice(library)
            log.error("the native kernels for %s compute wrongly and are not used", name)
            reasons.append(f"the native library for {name} computes wrongly")
        except (OSError, ExecutionError) as error:
            log.warning("the native kernels for %s are not used: %s", name, error)
            reasons.append(f"the native library for {name} cannot be used ({error})")
    return LibraryChoice(None, "; ".join(reasons))


def load_library() -> Library | None:
    """Return the library to compute with, or None where there is none: see :func:`choose_library`."""
    return choose_library().library


def address(array: Array) -> int:
    """Return where an array's first element lies."""
    found: int = array.__array_interface__["data"][0]
    return found


class Addresses:
    """Where arrays lie that are the same ones again and again, as a state that is trained in place.

    NumPy takes longer to say it than some kernels take for their work. An array that is here no longer is forgotten.
    """

    def __init__(self, count: int) -> None:
        """Know nothing yet of so many arrays."""
        self._known: list[tuple[Callable[[], Array | None], int]] = [(_nothing, 0)] * count

    def of(self, arrays: Sequence[Array]) -> list[int]:
        """Return where each array's first element lies; as many arrays each time."""
        found = []
        for number, array in enumerate(arrays):
            # one tuple, as another thread may write here meanwhile
            seen, place = self._known[number]
            if seen() is not array:
                place = address(array)
                self._known[number] = ref(array), place
            found.append(place)
        return found


def _nothing() -> None:
    return None


def _strides(array: Array) -> list[int]:
    """Return strides in elements."""
    return [stride // array.itemsize for stride in array.strides]


def _offsets(operand: Array) -> NDArray[np.int64]:
    """Return where each matrix of a batch begins, in elements."""
    offsets = np.zeros(1, np.int64)
    for size, stride in zip(operand.shape[:-2], _strides(operand)[:-2], strict=True):
        offsets = (offsets[:, None] + stride * np.arange(size, dtype=np.int64)).reshape(-1)
    return offsets


def _size(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))

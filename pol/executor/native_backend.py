"""The native back end. It gives the same bits as NumPy, and runs programs in C (``pol/native/program.c``)."""

import ctypes
import logging
import os
from collections.abc import Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from pol.errors import NotFinite
from pol.executor.fusion import grouped, singly
from pol.executor.interface import Compiled, nothing_reads
from pol.executor.numpy_backend import NumpyBackend
from pol.executor.remember import Remembering
from pol.executor.tape import ROWS_OF_TABLE, InstructionKind, Tape, can_be_written, write_tape
from pol.job.program import Program
from pol.native.arena import LINE
from pol.native.library import Addresses, Library, address
from pol.ops.order import nowhere
from pol.ops.shape import outside
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.state.held import Held, on_host

log = logging.getLogger(__name__)

GRAIN = 1_250_000
"""Least number of operations per thread. They take some microseconds, which is about the time that it takes to divide
an instruction among threads.
"""


class NativeBackend(Remembering[Compiled]):
    """A back end that runs programs as tapes.

    NumPy runs a program that has no kernel for a node, or whose tape needs more memory than the program declares. If
    the back end is not ``bounded``, it takes the smallest tape instead, and keeps no memory between runs.
    """

    name = "native"

    def __init__(self, library: Library, threads: int = 0, grain: int = GRAIN, *, bounded: bool = True) -> None:
        """Use the given library with ``threads`` threads. If ``threads`` is 0, :func:`cores` gives the number."""
        super().__init__()
        self._bounded = bounded
        self.library = library
        self.grain = grain
        self.crew = library.start_crew(self, threads or cores())
        self._plain = NumpyBackend()
        self._arenas: list[tuple[NDArray[np.uint8], int]] = []

    def prepare(self, program: Program, seed: int) -> Compiled:
        """Return the program as a tape.

        Elementwise nodes are in chains if the memory that the program declares is enough for that.
        """
        has_kernels = can_be_written(program)
        ways = ((grouped, True), (grouped, False), (singly, False))
        tapes = []
        for grouping, is_packing in ways if has_kernels else ():
            tape = write_tape(program, seed, grouping, is_packing=is_packing)
            if _size(program, tape) <= program.peak_size + ROUNDING:
                return Taped(self, program, tape)
            tapes.append(tape)
        if tapes and not self._bounded:
            return Taped(self, program, min(tapes, key=lambda tape: tape.arena))
        log.warning(
            "a program of %s nodes does not run natively; NumPy runs it, which is several times slower: %s",
            f"{len(program.nodes):,}",
            "it would need more memory than the program declares" if has_kernels else "a kernel is missing",
        )
        return self._plain.compile(program, seed)

    def integer_sums(self, bits: int, left: Array, right: Array, largest: tuple[Array, Array]) -> Array:
        """Return the exact sums of a part of a product."""
        self.library.check_thread()
        return self.library.integer_sums(bits, left, right, largest, self.crew, self.grain)

    def take_arena(self, size: int) -> tuple[NDArray[np.uint8], int]:
        """Return memory for one run, and the address of ``size`` bytes in it that begin at a cache line.

        Memory of an earlier run is preferred, because the system has already mapped its pages.
        """
        try:
            arena, start = self._arenas.pop()
        except IndexError:
            arena, start = np.empty(0, np.uint8), 0
        if arena.size < size + LINE:
            arena = np.empty(size + LINE, np.uint8)
            start = address(arena)
            start += -start % LINE
        return arena, start

    def give_back(self, arena: NDArray[np.uint8], start: int) -> None:
        """Keep the memory of a run that has ended for a later run, unless this back end keeps none."""
        if self._bounded:
            self._arenas.append((arena, start))
        else:
            self.library.forget()


THREADS = "OMP_NUM_THREADS"
"""The environment variable with the number of threads, which numerical libraries also use."""


def cores() -> int:
    """Return the number of threads to use.

    It is ``OMP_NUM_THREADS`` if that is set, otherwise the number of processors of this process.
    """
    setting = os.environ.get(THREADS, "")
    if setting.isdecimal() and int(setting):
        return int(setting)
    # Not every system can report which processors a process may use.
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


ROUNDING = 2**22
"""Allowance (bytes) for gaps between the values of an arena, in addition to the declared memory. ``BLOCKS_SIZE``
includes them.
"""


def _size(program: Program, tape: Tape) -> int:
    """Return the number of bytes that a run of a tape holds at once: inputs, constants, arena, outputs.

    Outputs are allocated when the run begins. Other back ends use the same amount of memory for copies of the inputs,
    which this back end does not make.
    """
    inputs = sum(spec.type.size for spec in program.inputs)
    outputs = sum(value.size for value in tape.outputs.values())
    return inputs + len(tape.constants) + tape.arena + outputs


class Taped:
    """A program as a tape, which any thread may run.

    It holds no reference to the program, so that the program can be freed.
    """

    def __init__(self, backend: NativeBackend, program: Program, tape: Tape) -> None:
        self._backend = backend
        self._tape = tape
        self._inputs = [spec.name for spec in program.inputs]
        self._places = {name: number for number, name in enumerate(self._inputs)}
        self._addresses = Addresses(len(self._inputs))
        self._outputs = [(name, value.shape, NUMPY_DTYPES[value.dtype]) for name, value in tape.outputs.items()]
        self._words, self._constants = address(tape.words), address(tape.constants)

    @property
    def arena(self) -> int:
        """Number of bytes that a run needs for values between its inputs and outputs."""
        return self._tape.arena

    def run(self, inputs: Mapping[str, Held]) -> dict[str, Array]:
        """Return the outputs by name. They are not brought into canonical form."""
        outputs, _ = self._run(inputs, frozenset(), nothing_reads, canonical=False)
        return outputs

    def canonical(
        self,
        inputs: Mapping[str, Held],
        donated: Collection[str] = (),
        release: Callable[[], None] = nothing_reads,
    ) -> dict[str, Array]:
        """Return the outputs in canonical form. Raises NotFinite if an output holds NaN or infinity.

        An output is written over the donated input of the same name if the program has already read that input.
        """
        replaced = self._tape.replacing & set(donated)
        outputs, not_finite = self._run(inputs, replaced, release, canonical=True)
        for name, is_not_finite in zip(outputs, not_finite, strict=True) if any(not_finite) else ():
            if is_not_finite:
                raise NotFinite(name)
        return outputs

    def _run(
        self,
        inputs: Mapping[str, Held],
        replaced: Collection[str],
        release: Callable[[], None],
        *,
        canonical: bool,
    ) -> tuple[dict[str, Array], bytes]:
        tape, library = self._tape, self._backend.library
        library.check_thread()
        # The copies of arrays that are not readable as they are live until the end of the run.
        arrays = [_readable(on_host(inputs[name])) for name in self._inputs]
        places = self._addresses.of(arrays)
        outputs: dict[str, Array] = {}
        for name, shape, dtype in self._outputs:
            if name in replaced and _is_free(given := on_host(inputs[name])):
                outputs[name] = given
                places.append(places[self._places[name]])
            else:
                outputs[name] = np.empty(shape, dtype)
                places.append(address(outputs[name]))
        not_finite = (ctypes.c_uint8 * len(outputs))()
        arena, start = self._backend.take_arena(tape.arena)
        places = [start, self._constants, *places, *[0] * tape.moving]
        bases = (ctypes.c_void_p * len(places))(*places)
        crew, grain = self._backend.crew, self._backend.grain
        whole = range(len(tape.words))
        parts = (whole[: tape.reading], whole[tape.reading :]) if replaced else (whole,)
        try:
            for number, part in enumerate(parts):
                if number == 1:
                    release()
                end = library.run(self._words, part, bases, canonical, not_finite, crew, grain)
                if end is not None:
                    at, row = end
                    error = nowhere if tape.words[at] == InstructionKind.ADD_ROWS else outside
                    raise error(row, int(tape.words[at + ROWS_OF_TABLE]))
        finally:
            self._backend.give_back(arena, start)
        return outputs, bytes(not_finite)


def _is_free(array: Array) -> bool:
    """Return whether a kernel may overwrite an array in place. If it may, make the array writable."""
    if not array.flags.owndata or _readable(array) is not array:
        return False
    array.setflags(write=True)
    return True


def _readable(array: Array) -> Array:
    """Return an array or a NumPy scalar as an aligned array in C order. It is copied only if necessary."""
    # ``np.require`` takes ten times as long as this check, and a step of a small model has many arrays.
    flags = array.flags
    is_whole = type(array) is np.ndarray and flags.c_contiguous and flags.aligned
    return array if is_whole else np.require(array, requirements=("C", "A"))

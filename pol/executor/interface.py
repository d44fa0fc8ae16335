"""The interface of back ends, which compile and run programs.

:func:`run` checks the inputs and returns the outputs in canonical form, for any back end.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from pol.errors import ExecutionError
from pol.job.program import Program
from pol.state.arrays import NUMPY_DTYPES, Array


def nothing_reads() -> None:
    """Do nothing. This function is the default of ``release``; it is right if no other thread reads the donated
    inputs.
    """


class Compiled(Protocol):
    """A program that is compiled for one seed."""

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by name. ``inputs`` must contain every input of the program, with its dtype and shape."""

    def canonical(
        self,
        inputs: Mapping[str, Array],
        donated: Collection[str] = (),
        release: Callable[[], None] = nothing_reads,
    ) -> dict[str, Array]:
        """Return the outputs in canonical form.

        If outputs hold NaN or infinity, raise NotFinite for the first such output by name. See :func:`run` for
        ``donated`` and ``release``.
        """


class Backend(Protocol):
    """A way to run programs. All back ends give the same bits."""

    @property
    def name(self) -> str:
        """Name of the back end that computes. It is one of :data:`pol.executor.names.BACKENDS`."""

    def compile(self, program: Program, seed: int) -> Compiled:
        """Return the program, compiled for a seed. The result is cached as long as the program exists."""


def run(
    program: Program,
    inputs: Mapping[str, Array],
    seed: int,
    backend: Backend,
    donated: Collection[str] = (),
    release: Callable[[], None] = nothing_reads,
) -> dict[str, Array]:
    """Run a program and return its outputs in name order. FP32 outputs are finite, and their zeros are +0.0.

    ``inputs`` maps names to arrays. It has at least the program's inputs, with their exact dtypes and shapes; further
    entries are ignored. ``seed`` is the seed of the job, which is the key of every ``uniform`` node. The result is the
    same on every back end.

    The memory of each ``donated`` input may be reused for the output of the same name, so that a large state is in
    memory only once. The caller may not use donated inputs afterwards, even if the run fails, and no two donated inputs
    may share memory. If another thread may still read donated inputs, ``release`` must wait for that thread.
    ``release`` is called before the first donated input is overwritten. If no donated input is overwritten, ``release``
    is not called. An error that ``release`` raises ends the run.

    Raises NotFinite if an FP32 output holds NaN or infinity, and OutOfRange if a ``take`` or ``add_rows`` uses a row
    number that does not exist. Raises ExecutionError if an input is missing or has another type.
    """
    return backend.compile(program, seed).canonical(_checked(program, inputs), donated, release)


def _checked(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    arrays = {}
    for spec in program.inputs:
        array = inputs.get(spec.name)
        if array is None:
            raise ExecutionError(spec.name, "this input is missing")
        if array.shape != spec.shape or array.dtype != NUMPY_DTYPES[spec.dtype]:
            reason = f"is {array.dtype}{list(array.shape)}, not {spec.type}"
            raise ExecutionError(spec.name, reason)
        arrays[spec.name] = array
    return arrays

"""What runs programs: a back end makes of a program what is ready to run.

:func:`run` has checked inputs in and outputs in canonical form out, whatever back end is between.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from pol.errors import ExecutionError
from pol.job.program import Program
from pol.state.arrays import NUMPY_DTYPES, Array


def nothing_reads() -> None:
    """Return: nobody else reads what is donated."""


class Compiled(Protocol):
    """A program made ready for one seed; how many nodes it runs at once is its own matter."""

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by name; all inputs are there, with the dtypes and shapes of the program."""

    def canonical(
        self,
        inputs: Mapping[str, Array],
        donated: Collection[str] = (),
        release: Callable[[], None] = nothing_reads,
    ) -> dict[str, Array]:
        """Return the outputs in canonical form; NotFinite for the first by name that has none.

        See :func:`run` for ``donated`` and ``release``.
        """


class Backend(Protocol):
    """A way to run programs; every back end gives the same bits."""

    @property
    def name(self) -> str:
        """One of :data:`pol.executor.names.BACKENDS`: what really computes."""

    def compile(self, program: Program, seed: int) -> Compiled:
        """Return the program ready to run; what was compiled is remembered as long as the program lives."""


def run(
    program: Program,
    inputs: Mapping[str, Array],
    seed: int,
    backend: Backend,
    donated: Collection[str] = (),
    release: Callable[[], None] = nothing_reads,
) -> dict[str, Array]:
    """Return a program's outputs in name order: FP32 is finite, and its zeros have no sign.

    ``inputs`` are at least the program's by name (others are ignored), with their exact dtypes and shapes; ``seed`` is
    the job's, the key of every ``uniform`` node. The result is the same on every back end.

    Inputs that are ``donated`` belong to nobody any more, whatever comes of the run: the output of the same name may be
    written where they lie, so that a large state is there once. No two of them may share memory. Who still reads them
    when the run begins says so by ``release``: it is called before the first of them is overwritten, if one is, and
    returns when they may be. What it raises ends the run.

    Raises NotFinite when an FP32 output holds NaN or infinity, OutOfRange when a ``take`` or ``add_rows`` asked for a
    row that does not exist, and ExecutionError when an input is missing or has another type.
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

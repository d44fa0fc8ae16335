"""The interface of back ends, which compile and run programs.

:func:`run` checks the inputs and returns the outputs in canonical form, for any back end. :func:`run_held` does the
same, and leaves the outputs where the back end computed them.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol, cast

from pol.errors import ExecutionError
from pol.job.program import Program
from pol.state.arrays import NUMPY_DTYPES, Array
from pol.state.held import Held, OnDevice, is_on_host, on_host


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
        inputs: Mapping[str, Held],
        donated: Collection[str] = (),
        release: Callable[[], None] = nothing_reads,
    ) -> Mapping[str, Held]:
        """Return the outputs in canonical form, on the host or on the device that computed them.

        An input on a device was made by the back end of this program. If outputs hold NaN or infinity, raise NotFinite
        for the first such output by name. See :func:`run` for ``donated`` and ``release``.
        """


class Backend(Protocol):
    """A way to run programs. All back ends give the same bits."""

    @property
    def name(self) -> str:
        """Name of the back end that computes. It is one of :data:`pol.executor.names.BACKENDS`."""

    def compile(self, program: Program, seed: int) -> Compiled:
        """Return the program, compiled for a seed. The result is cached as long as the program exists."""

    def integer_sums(self, bits: int, left: Array, right: Array, largest: tuple[Array, Array]) -> Array:
        """Return the exact sums of a part of a product, as :func:`pol.ops.product.integer_sums` defines them."""


def run(
    program: Program,
    inputs: Mapping[str, Held],
    seed: int,
    backend: Backend,
    donated: Collection[str] = (),
    release: Callable[[], None] = nothing_reads,
) -> dict[str, Array]:
    """Run a program and return its outputs in name order, on the host. FP32 outputs are finite, their zeros are +0.0.

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
    outputs = run_held(program, inputs, seed, backend, donated, release)
    return {name: on_host(output) for name, output in outputs.items()}


def run_held(
    program: Program,
    inputs: Mapping[str, Held],
    seed: int,
    backend: Backend,
    donated: Collection[str] = (),
    release: Callable[[], None] = nothing_reads,
) -> Mapping[str, Held]:
    """Run a program as :func:`run` does, but leave the outputs on the device of the back end.

    Inputs that this back end holds on its device are used there.
    """
    return backend.compile(program, seed).canonical(_checked(program, inputs, backend), donated, release)


def _checked(program: Program, inputs: Mapping[str, Held], backend: Backend) -> dict[str, Held]:
    tensors: dict[str, Held] = {}
    for spec in program.inputs:
        held = inputs.get(spec.name)
        if held is None:
            raise ExecutionError(spec.name, "this input is missing")
        if held.shape != spec.shape or held.dtype != NUMPY_DTYPES[spec.dtype]:
            reason = f"is {held.dtype}{list(held.shape)}, not {spec.type}"
            raise ExecutionError(spec.name, reason)
        is_usable = is_on_host(held) or cast(OnDevice, held).holder is backend
        tensors[spec.name] = held if is_usable else on_host(held)
    return tensors

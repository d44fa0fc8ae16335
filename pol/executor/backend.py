"""Selection of the back end of an engine."""

import logging
from functools import cache
from typing import TYPE_CHECKING

from domain.errors import Expected
from host.devices.device import CPU
from pol.errors import ExecutionError
from pol.executor.interface import Backend
from pol.executor.known_program import KNOWN, answer
from pol.executor.names import NATIVE, NUMPY, Engine
from pol.executor.native_backend import NativeBackend
from pol.executor.numpy_backend import NumpyBackend
from pol.native.library import Library, LibraryChoice, choose_library

if TYPE_CHECKING:
    from pol.executor.integer_products import Choose

log = logging.getLogger(__name__)


def backend(engine: Engine, *, bounded: bool = True) -> Backend:
    """Return the back end of an engine: ``native``, ``numpy`` (the reference), or ``torch`` on a device.

    If it is not ``bounded``, a program may need more memory than it declares. If there are no native kernels, NumPy
    replaces ``native``. Raises ExecutionError if there is no such engine, if the environment variable that selects
    native kernels has an unknown value, or if this process flushes subnormal numbers to zero. For torch, ExecutionError
    is also raised if there is no such device, or if the device computes wrong results.
    """
    engine.check()
    if engine.name == NATIVE:
        library = _choose().library
        return NumpyBackend() if library is None else NativeBackend(library, engine.threads, bounded=bounded)
    return NumpyBackend() if engine.name == NUMPY else torch_on(engine.device, engine.threads)


def computing(engine: Engine) -> str:
    """Return a description of the code that computes for an engine.

    Examples are ``native avx2``, ``torch``, ``torch on cuda:1`` and ``numpy``. If NumPy replaces the native kernels,
    the reason follows: ``numpy: no native library was built (run make setup)``. Raises ExecutionError as
    :func:`backend` does.
    """
    if engine.name != NATIVE:
        return engine.code
    choice = _choose()
    return f"{NATIVE} {choice.library.name}" if choice.library else f"{NUMPY}: {choice.reason}"


def torch_on(device: str, threads: int = 0) -> Backend:
    """Return torch on a device.

    On a GPU, matrices are multiplied in the ways that give the right answer of the known program. Kernels sum rows and
    compute chains, and programs become CUDA graphs, if they give it.
    """
    from pol.executor.torch_backend import TorchBackend, chains_on, sums_on, use_threads

    if threads:
        use_threads(threads)

    if device == CPU:
        return TorchBackend(device)
    products = _products_on(device)
    best = TorchBackend(device, products=products)
    sums = sums_on(device)
    if sums is not None:
        summing = TorchBackend(device, products=products, sum_rows=sums, in_graphs=True)
        if _is_right_on(device, summing, "sums of rows"):
            best = summing
        else:
            sums = None
    chains = chains_on(device)
    if chains is not None:
        chained = TorchBackend(device, products=products, sum_rows=sums, chains=chains, in_graphs=sums is not None)
        # If no kernel could be compiled, a warning reported that.
        if _is_right_on(device, chained, "chains") and chained.in_chains:
            best = chained
    return best


def _is_right_on(device: str, executor: Backend, what: str) -> bool:
    """Return whether a back end with further kernels computes the right answer of the known program."""
    try:
        is_right = _computes_answer(executor)
    except RuntimeError:
        is_right = False
    if not is_right:
        log.error("%s compute wrong results on %s and are not used", what, device)
    return is_right


def _products_on(device: str) -> "Choose":
    """Return how to multiply matrices on a device: the faster way for each product, if both ways are right there.

    Raises ExecutionError if neither way gives the right answer of the known program.
    """
    from pol.executor.integer_products import always, in_digits, in_floats, measured
    from pol.executor.torch_backend import TorchBackend

    right = []
    reason = f"torch computes wrong results on {device} and is not used"
    for multiply in (in_floats, in_digits):
        try:
            if _computes_answer(TorchBackend(device, products=always(multiply))):
                right.append(multiply)
        except RuntimeError as error:
            detail = (str(error).splitlines() or [type(error).__name__])[0]
            reason = f"torch fails on {device}: {detail}"
    if not right:
        raise ExecutionError("backend", reason)
    if len(right) == 1:
        log.warning("one of two ways to multiply does not work on %s and is not used: %s", device, reason)
    return measured(device).choose if len(right) > 1 else always(right[0])


def _computes_answer(executor: Backend) -> bool:
    """Return whether a back end computes the right answer of the known program. An error counts as a wrong answer."""
    try:
        return answer(executor) == KNOWN
    except Expected:
        return False


def _choose() -> LibraryChoice:
    """Return the native library to use. A library is used only if it computes the known program correctly, in addition
    to its own self-test.
    """
    choice = choose_library()
    if choice.library is None or _is_right(choice.library):
        return choice
    return LibraryChoice(None, f"the native library for {choice.library.name} computes wrong results")


@cache
def _is_right(library: Library) -> bool:
    is_right = _computes_answer(NativeBackend(library, threads=1))
    if not is_right:
        log.error("the native kernels for %s compute wrong results and are not used", library.name)
    return is_right

"""The back ends by name."""

import logging
from functools import cache

from domain.errors import Expected
from pol.errors import ExecutionError
from pol.executor.interface import Backend
from pol.executor.known_program import KNOWN, answer
from pol.executor.names import BACKENDS, NATIVE, NUMPY, TORCH
from pol.executor.native_backend import NativeBackend
from pol.executor.numpy_backend import NumpyBackend
from pol.native.library import Library, LibraryChoice, choose_library

log = logging.getLogger(__name__)


def backend(name: str, device: str = "cpu") -> Backend:
    """Return a back end: ``native``, ``numpy`` (reference), or ``torch`` on a ``device``.

    Where there are no native kernels, ``native`` is NumPy. Raises ExecutionError for an unknown name, or where this
    machine flushes subnormal numbers to zero, or the switch of the native kernels names none, or there is no such
    device, or it computes wrongly.
    """
    if name == NATIVE:
        library = _choose().library
        return NumpyBackend() if library is None else NativeBackend(library)
    if name == NUMPY:
        return NumpyBackend()
    if name == TORCH:
        return _on(device)
    raise ExecutionError("backend", f"{name!r} is none of {', '.join(BACKENDS)}")


def computing(name: str) -> str:
    """Return what computes where a back end is asked for: ``native avx2``, ``torch``, ``numpy``.

    Where NumPy computes in the place of native kernels, the reason follows: ``numpy: no native library was built (run
    make setup)``. Raises ExecutionError as :func:`backend` does.
    """
    if name != NATIVE:
        return name
    choice = _choose()
    return f"{NATIVE} {choice.library.name}" if choice.library else f"{NUMPY}: {choice.reason}"


def _on(device: str) -> Backend:
    """Return torch on a device: with kernels for chains where there are some that know the answer, too."""
    from pol.executor.torch_backend import TorchBackend, chains_on

    made = TorchBackend(device)
    if device == "cpu":
        return made
    try:
        is_right = _knows(made)
    except RuntimeError as error:
        detail = (str(error).splitlines() or [type(error).__name__])[0]
        raise ExecutionError("backend", f"torch fails on {device}: {detail}") from error
    if not is_right:
        raise ExecutionError("backend", f"torch computes wrongly on {device}: it is not used")
    chains = chains_on(device)
    if chains is None:
        return made
    chained = TorchBackend(device, chains=chains)
    try:
        is_right = _knows(chained)
    except RuntimeError:
        is_right = False
    if not is_right:
        log.error("chains compute wrongly on %s: nodes run one by one", device)
    # where no kernel can be made, that is said already
    return chained if is_right and chained.in_chains else made


def _knows(made: Backend) -> bool:
    """Whether a back end knows the answer of the known program; what has no answer does not."""
    try:
        return answer(made) == KNOWN
    except Expected:
        return False


def _choose() -> LibraryChoice:
    """Return the library to compute with, once whole programs come out right, too."""
    choice = choose_library()
    if choice.library is None or _is_right(choice.library):
        return choice
    return LibraryChoice(None, f"the native library for {choice.library.name} computes wrongly")


@cache
def _is_right(library: Library) -> bool:
    is_right = _knows(NativeBackend(library, threads=1))
    if not is_right:
        log.error("the native kernels for %s compute wrongly and are not used", library.name)
    return is_right

"""The back ends by name; each library is imported only when it is asked for."""

from pol.errors import ExecutionError
from pol.executor.interface import Backend


def backend(name: str, device: str = "cpu") -> Backend:
    """Return a back end: ``numpy`` (reference), or ``torch`` on a ``device``.

    Raises ExecutionError for an unknown name, or where this machine flushes subnormal numbers to zero.
    """
    if name == "numpy":
        from pol.executor.numpy_backend import NumpyBackend

        return NumpyBackend()
    if name == "torch":
        from pol.executor.torch_backend import TorchBackend

        return TorchBackend(device)
    raise ExecutionError("backend", f"{name!r} is neither numpy nor torch")

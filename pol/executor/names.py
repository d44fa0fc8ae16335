"""The names of the back ends, and :class:`Engine`, the choice of what computes.

Code that only offers the choice, or passes it on, needs no more than these.
"""

import re
from dataclasses import dataclass
from typing import Final

from domain.readable import Readable
from host.confines import read_confines
from host.devices.device import CPU, CUDA
from pol.errors import ExecutionError

NATIVE, NUMPY, TORCH = "native", "numpy", "torch"
BACKENDS: Final = (NATIVE, NUMPY, TORCH)
"""All names, the default first."""
DEFAULT: Final = NATIVE
"""The default back end; NumPy replaces it if there are no native kernels."""
THREADS_MAX: Final = 1_024
MEMORY_MIN: Final = 1 << 28
"""Least memory (bytes) that an engine may be given: the libraries of a process need most of it."""
_DEVICE: Final = re.compile(rf"{CPU}|{CUDA}(:[0-9]{{1,3}})?")


@dataclass(frozen=True, slots=True)
class Engine(Readable):
    """The code and the part of a machine that compute. All engines give the same bits.

    ``name`` is one of :data:`BACKENDS`. ``device`` is ``cpu``, or a GPU (``cuda``, ``cuda:1``). ``threads`` is the
    number of threads of one process; 0 means one for each processor that the process may use. ``memory`` is the most
    bytes of main memory that one process may use; 0 means three quarters of the machine's.

    Example::

        ran = assay.run_locally("my-job", engine=assay.Engine("torch", threads=2))
    """

    name: str = DEFAULT
    device: str = CPU
    threads: int = 0
    memory: int = 0

    @property
    def memory_bytes(self) -> int:
        """Most bytes of main memory that one process may use."""
        return self.memory or read_confines().memory * 3 // 4

    def check(self) -> None:
        """Raise ExecutionError if no machine can have such an engine."""
        if self.name not in BACKENDS:
            raise ExecutionError("backend", f"there is no back end {self.name!r}; use one of {', '.join(BACKENDS)}")
        if not _DEVICE.fullmatch(self.device):
            raise ExecutionError("device", f"there is no device {self.device!r}; use cpu, cuda, or for example cuda:1")
        if self.device != CPU and self.name != TORCH:
            reason = (
                f"the back end {self.name} does not compute on {self.device}; use the back end torch, or device cpu"
            )
            raise ExecutionError("device", reason)
        if not 0 <= self.threads <= THREADS_MAX:
            raise ExecutionError("threads", f"{self.threads} is not a number of threads; use 1 to {THREADS_MAX}")
        if self.memory and self.memory < MEMORY_MIN:
            raise ExecutionError("memory", f"a process needs at least {MEMORY_MIN >> 20} MiB, not {self.memory} bytes")

    @property
    def code(self) -> str:
        """The back end and its device in words, for example ``torch on cuda:1``."""
        return self.name if self.device == CPU else f"{self.name} on {self.device}"

    def __str__(self) -> str:
        """Return the engine in words, for example ``torch on cuda:1 with 4 threads, 8 GiB``."""
        words = self.code
        if self.threads:
            words += f" with {self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{words}, {self.memory / 2**30:.3g} GiB" if self.memory else words


DEFAULT_ENGINE: Final = Engine()
"""The default back end, with all processors of its process and three quarters of the machine's memory."""

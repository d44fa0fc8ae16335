"""Kernels of CUDA C++, compiled in this process by NVRTC, the library that comes with torch.

No compiler has to be started and nothing is written, so a sandboxed process can do it too.
"""

from collections.abc import Sequence
from ctypes import c_int64, c_void_p
from typing import Any, Final

import torch
from cuda.bindings import driver, nvrtc
from torch import Tensor

OPTIONS: Final = ("--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
"""Compiler options: every operation rounds once to nearest, and subnormal numbers stay."""
THREADS: Final = 256
"""Threads of a block."""
_SUCCESS: Final = 0


def compiled(name: str, text: str, capability: int) -> bytes:
    """Return the machine code of a kernel for a compute capability, for example 90 for 9.0. No GPU is needed."""
    program = _checked(nvrtc.nvrtcCreateProgram(text.encode(), f"{name}.cu".encode(), 0, [], []))
    options = [option.encode() for option in (f"--gpu-architecture=sm_{capability}", *OPTIONS)]
    try:
        _checked(nvrtc.nvrtcCompileProgram(program, len(options), options))
        code = bytes(_checked(nvrtc.nvrtcGetCUBINSize(program)))  # a buffer of zeros
        _checked(nvrtc.nvrtcGetCUBIN(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return code


class Kernel:
    """A kernel on one GPU. It computes one number per thread."""

    def __init__(self, name: str, text: str, device: torch.device) -> None:
        """Compile and load a kernel. Raises RuntimeError if that is not possible."""
        major, minor = torch.cuda.get_device_capability(device)
        with torch.cuda.device(device):
            # The first tensor opens the device.
            torch.zeros(1, device=device)
            self._module = _checked(driver.cuModuleLoadData(compiled(name, text, 10 * major + minor)))
        self._function = _checked(driver.cuModuleGetFunction(self._module, name.encode()))

    def run(self, numbers: int, arguments: Sequence[Tensor | int]) -> None:
        """Start the kernel on the current stream for so many numbers, with addresses and integers (64 bits)."""
        values = tuple(value.data_ptr() if isinstance(value, Tensor) else value for value in arguments)
        kinds = tuple(c_void_p if isinstance(value, Tensor) else c_int64 for value in arguments)
        blocks = -(-numbers // THREADS)
        stream = torch.cuda.current_stream().cuda_stream
        _checked(driver.cuLaunchKernel(self._function, blocks, 1, 1, THREADS, 1, 1, 0, stream, (values, kinds), 0))


def _checked(answer: tuple[Any, ...]) -> Any:
    """Return the result of a call of NVRTC or of the driver. Raises RuntimeError if the call failed."""
    code, *results = answer
    if int(code) != _SUCCESS:
        raise RuntimeError(code.name)
    return results[0] if results else None

"""Restriction of a process's libraries to an instruction set. Each library reads an environment variable once."""

import os

from pol.native.library import SWITCH

AVX2 = "avx2"
_VARIABLES = {
    AVX2: {
        SWITCH: AVX2,
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    }
}
INSTRUCTIONS = tuple(_VARIABLES)


def hold_to(instructions: str) -> None:
    """Restrict native kernels and torch to an instruction set, also in child processes. Call this before imports."""
    os.environ.update(_VARIABLES[instructions])


def are_held() -> bool:
    """Return True if this process is restricted to an instruction set."""
    return any(
        all(os.environ.get(name) == value for name, value in variables.items()) for variables in _VARIABLES.values()
    )

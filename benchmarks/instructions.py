"""Instruction sets to which every library of a process is held: each of them looks at the environment once."""

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
    """Hold native kernels and torch, which nobody has imported yet, to an instruction set; child processes as well."""
    os.environ.update(_VARIABLES[instructions])


def are_held() -> bool:
    """Whether this process is held to an instruction set."""
    return any(
        all(os.environ.get(name) == value for name, value in variables.items()) for variables in _VARIABLES.values()
    )

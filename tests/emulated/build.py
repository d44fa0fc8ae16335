"""Libraries of kernels for instruction sets that this processor may lack.

They are made of the very same source; what it takes from AVX-512 and VNNI is plain C there (``vnni.h``).
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.setup import native
from tools.setup.native import Flags
from tools.setup.steps import Command

HEADER = Path(__file__).with_name("vnni.h")
WIDTHS = {"avx512vnni": 512, "avxvnni": 256}
"""Bits of a vector of each instruction set."""


def emulated() -> dict[str, Flags]:
    """Return what the compiler has to be told, for a processor with AVX2; only products are optimized."""
    avx2 = native.MACHINES["x86_64"]["avx2"].all
    return {
        name: Flags(
            ("-O0", "-Wno-psabi", *avx2),
            ("-O1", "-include", str(HEADER), f"-DEMULATED={width}"),
        )
        for name, width in WIDTHS.items()
    }


def build(compiler: Command, sets: Mapping[str, Flags], folder: Path) -> None:
    """Make a library of each instruction set; CalledProcessError where the compiler refuses."""
    for products in (True, False):
        for command in native.compiling(compiler, sets, folder, products=products):
            subprocess.run(command, check=True)
    for command in native.linking(compiler, sets, folder):
        subprocess.run(command, check=True)

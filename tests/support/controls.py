"""What chooses other kernels, so that one machine stands for many: libraries, threads, instruction sets.

Every control belongs to a process of its own, since libraries look at the environment once.
"""

import os
import platform
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from pol.executor.names import NATIVE, NUMPY, TORCH
from pol.native.library import INSTRUCTION_SETS, SWITCH

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_CORES = {
    "Prescott": "sse",
    "Nehalem": "sse4_2",
    "Sandybridge": "avx",
    "Haswell": "avx2",
    "Zen": "avx2",
    "SkylakeX": "avx512f",
    "ARMV8": "asimd",
    "NEOVERSEN1": "asimd",
}
KERNELS = {
    "avx512vnni": "avx512_vnni",
    "avxvnni": "avx_vnni",
    "avx2": "avx2",
    "dotprod": "asimddp",
    "portable": "",
}
"""The name of the system for what native kernels need."""
_CAPABILITIES = {"default": "", "avx2": "avx2", "avx512": "avx512f"}


@dataclass(frozen=True)
class Control:
    """An executor, a variable that chooses its kernels, and the processor's feature without which it ends in SIGILL."""

    executor: str
    variable: str = ""
    value: str = ""
    threads: int = 1
    needs: str = ""

    def __str__(self) -> str:
        """Name it in one line."""
        setting = f"{self.variable}={self.value}" if self.variable else "as it is"
        return f"{self.executor}, {setting}, {self.threads} thread{'s' * (self.threads > 1)}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its process: this one's, without what another control would set."""
        others = {control.variable for control in CONTROLS}
        kept = {name: value for name, value in os.environ.items() if name not in others}
        kept |= dict.fromkeys(_THREADS, str(self.threads))
        return kept | ({self.variable: self.value} if self.variable else {})

    @property
    def missing(self) -> str:
        """Why this machine cannot do it, as far as that is known without trying; else empty."""
        lacks = self.needs and self.needs not in _features()
        return f"this processor has no {self.needs}" if lacks else ""


CONTROLS = (
    *(Control(NATIVE, SWITCH, name, threads, KERNELS[name]) for name, threads in product(INSTRUCTION_SETS, (1, 2, 3))),
    *(Control(NUMPY, threads=threads) for threads in (1, 2)),
    *(
        Control(NUMPY, "OPENBLAS_CORETYPE", core, threads, needs)
        for (core, needs), threads in product(_CORES.items(), (1, 2))
    ),
    Control(NUMPY, "NPY_DISABLE_CPU_FEATURES", "X86_V3", 1, "avx2"),
    Control(NUMPY, "NPY_DISABLE_CPU_FEATURES", "X86_V4", 1, "avx512f"),
    *(
        Control(TORCH, "ATEN_CPU_CAPABILITY", value, threads, needs)
        for (value, needs), threads in product(_CAPABILITIES.items(), (1, 2))
    ),
    *(Control(TORCH, "MKL_CBWR", "COMPATIBLE", threads, "sse") for threads in (1, 2)),
    *(Control(TORCH, "MKL_ENABLE_INSTRUCTIONS", "SSE4_2", threads, "sse4_2") for threads in (1, 2)),
    Control(TORCH, "ONEDNN_MAX_CPU_ISA", "SSE41", 1, "sse4_1"),
)
"""All of them; ``make nightly`` takes them."""
FEW = tuple(
    control
    for control in CONTROLS
    if (control.executor == NATIVE and control.threads != 2)
    or (control.threads == 1 and control.value in ("", "Prescott", "Haswell", "default", "COMPATIBLE"))
)
"""Those that ``make test`` has time for: the oldest and the newest of a library; all of them have the night."""


@cache
def _features() -> frozenset[str]:
    """Return what the processor can do, or nothing where that cannot be known."""
    file = Path("/proc/cpuinfo")
    if platform.system() != "Linux" or not file.is_file():
        return frozenset()
    lines = (line for line in file.read_text().splitlines() if line.startswith(("flags", "Features")))
    return frozenset(next(lines, "").split())

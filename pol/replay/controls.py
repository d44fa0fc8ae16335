"""Hardware controls: settings that choose other kernels or another order of summation, so that one machine stands for
many.

Each control belongs to a process of its own, because libraries read their environment once.
"""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from host.confines import read_confines
from host.devices.device import CPU
from pol.executor.hardware import HALVES, REVERSED, Hardware
from pol.rules.tolerance import FP32

_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_ATEN, _MKL, _ONEDNN = "ATEN_CPU_CAPABILITY", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA"
_SWITCHES: Final = (_ATEN, _MKL, _ONEDNN)
_PROCESSORS: Final = Path("/proc/cpuinfo")
EXACT: Final = "exact"


@dataclass(frozen=True, slots=True)
class HardwareControl:
    """A setting under which a segment is run. ``hardware`` is None for exact arithmetic.

    ``switch`` is an environment variable and its value; both are empty for the machine as it is.
    """

    hardware: Hardware | None
    switch: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """The setting in words, for example ``fp32 on cpu, 1 thread, MKL_CBWR=COMPATIBLE``."""
        if self.hardware is None:
            return EXACT
        variable, value = self.switch
        return f"{self.hardware}, {variable}={value}" if variable else str(self.hardware)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of its process: that of this process, without the settings of other controls."""
        kept = {name: value for name, value in os.environ.items() if name not in _SWITCHES}
        if self.hardware is not None and self.hardware.threads:
            kept |= dict.fromkeys(_THREADS, str(self.hardware.threads))
        variable, value = self.switch
        return kept | ({variable: value} if variable else {})


def find_controls(precision: str = FP32, device: str = CPU, *, exact: bool = False) -> tuple[HardwareControl, ...]:
    """Return the controls that this machine has for a precision and a device, the plain one first.

    A GPU has its orders of summation, and for FP32 also the processor. With ``exact``, exact arithmetic is one more.
    """
    orders = [Hardware(precision, device, order) for order in (REVERSED, HALVES)]
    last = [HardwareControl(None)] if exact else []
    if device != CPU:
        beside = [HardwareControl(Hardware(precision, CPU, threads=1))] if precision == FP32 else []
        return (*map(HardwareControl, (Hardware(precision, device), *orders)), *beside, *last)
    units = read_confines().allowed
    threads = sorted({1, 2, units} if units > 1 else {1})
    alone = Hardware(precision, threads=1)
    return (
        *(HardwareControl(Hardware(precision, threads=count)) for count in threads),
        *(HardwareControl(Hardware(precision, order=each.order, threads=1)) for each in orders),
        *(HardwareControl(alone, switch) for switch in _switches()),
        *last,
    )


def _switches() -> tuple[tuple[str, str], ...]:
    """Return the variables that choose the kernels of torch's libraries on this processor, with their values."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ((_ATEN, "default"),)
    capable = ((_ATEN, "avx2"),) if "avx512f" in _features() else ()
    return ((_ATEN, "default"), *capable, (_MKL, "COMPATIBLE"), (_ONEDNN, "SSE41"))


def _features() -> frozenset[str]:
    """Return the features that the system lists for the processor; none if it lists none."""
    try:
        lines = _PROCESSORS.read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())
